// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/crypto/bcrypt"
)

// Roles of a user (docs/PROTOCOL.md, "Security").
const (
	RoleApp       = "app"
	RoleConverter = "converter"
	RoleOperator  = "operator"
	RoleFleet     = "fleet"
	RoleMonitor   = "monitor"
)

var roles = []string{RoleApp, RoleConverter, RoleOperator, RoleFleet, RoleMonitor}

// User is a line of the users file.
type User struct {
	Name string // also the client segment of topics
	Hash string // bcrypt
	Role string
}

// ReadUsers reads a users file: one user a line as name:bcrypt-hash or
// name:bcrypt-hash:role, the role app when it is missing; empty lines and lines that
// begin with # do not count. The first two fields are what htpasswd -nB writes.
func ReadUsers(path string) ([]User, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("broker: mqtt.embedded.users_file: %w", err)
	}
	defer f.Close()
	var users []User
	names := map[string]bool{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		u, err := parseUser(line)
		if err == nil && names[u.Name] {
			err = fmt.Errorf("user %q stands twice", u.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("broker: %s:%d: %w", path, n, err)
		}
		names[u.Name] = true
		users = append(users, u)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("broker: %s: %w", path, err)
	}
	if len(users) == 0 {
		return nil, fmt.Errorf("broker: %s holds no user", path)
	}
	return users, nil
}

func parseUser(line string) (User, error) {
	parts := strings.Split(line, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return User{}, fmt.Errorf("write name:bcrypt-hash or name:bcrypt-hash:role")
	}
	u := User{Name: parts[0], Hash: parts[1], Role: RoleApp}
	if len(parts) == 3 {
		u.Role = parts[2]
	}
	if !validName(u.Name) {
		return User{}, fmt.Errorf("name %q: use 1 to 64 of A-Z a-z 0-9 . _ -", u.Name)
	}
	if _, err := bcrypt.Cost([]byte(u.Hash)); err != nil {
		return User{}, fmt.Errorf("user %q: the password must be a bcrypt hash", u.Name)
	}
	if !slices.Contains(roles, u.Role) {
		return User{}, fmt.Errorf("user %q: role %q is none of %s", u.Name, u.Role, strings.Join(roles, ", "))
	}
	return u, nil
}

// HashPassword makes the second field of a line.
func HashPassword(password string) (string, error) {
	h, err := bcrypt.GenerateFromPassword([]byte(password), 10)
	if err != nil {
		return "", fmt.Errorf("broker: password: %w", err)
	}
	return string(h), nil
}

func validName(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
	}) < 0
}

// natsUsers turns users into those of the server, with the device added.
func natsUsers(list []User, device, password string) ([]*server.User, error) {
	if !validName(device) {
		return nil, fmt.Errorf("broker: device name %q is malformed", device)
	}
	users := []*server.User{{
		Username: device, Password: password,
		Permissions: permissions(
			[]string{"windhover/v1/" + device + "/#", "homeassistant/device/windhover_" + device + "/config"},
			[]string{"windhover/v1/" + device + "/#", "windhover/v1/_group/+/desired"}),
	}}
	for _, u := range list {
		if u.Name == device {
			return nil, fmt.Errorf("broker: user %q has the name of the device, which is its own: choose another", u.Name)
		}
		users = append(users, &server.User{
			Username: u.Name, Password: u.Hash, Permissions: rights(u),
		})
	}
	return users, nil
}

// rights are the topics of a role.
func rights(u User) *server.Permissions {
	const base = "windhover/v1/+/"
	pub := []string{base + "req/" + u.Name + "/+"}
	sub := []string{
		base + "res/" + u.Name + "/#", base + "job/" + u.Name + "/+",
		base + "status", base + "info", base + "model/+",
	}
	switch u.Role {
	case RoleConverter:
		pub = append(pub, base+"cmd/convert/"+u.Name+"/+", base+"cmd/verify/"+u.Name+"/+")
		// whoever may submit may also end what he submitted
		pub = append(pub, base+"cmd/job_cancel/"+u.Name+"/+")
	case RoleOperator:
		pub = append(pub, base+"cmd/+/"+u.Name+"/+")
		sub = []string{"windhover/v1/#", "homeassistant/device/+/config"}
	case RoleFleet:
		pub = []string{"windhover/v1/_group/+/desired", base + "desired"}
		sub = []string{"windhover/v1/#"}
	case RoleMonitor:
		pub = nil
		sub = []string{base + "status", base + "info", base + "stats", base + "event", base + "job/#"}
	}
	return permissions(pub, sub)
}

// permissions turns topic filters into permissions of the server. An empty list
// allows nothing.
func permissions(pub, sub []string) *server.Permissions {
	return &server.Permissions{Publish: allow(pub), Subscribe: allow(sub)}
}

func allow(filters []string) *server.SubjectPermission {
	if len(filters) == 0 {
		return &server.SubjectPermission{Deny: []string{">"}}
	}
	p := &server.SubjectPermission{}
	for _, f := range filters {
		s := subject(f)
		p.Allow = append(p.Allow, s)
		if above, ok := strings.CutSuffix(s, ".>"); ok {
			p.Allow = append(p.Allow, above) // a/# means a as well, > does not
		}
	}
	return p
}

// subject is the server's name of an MQTT topic filter: '/' becomes '.', and a '.'
// within a level becomes "//".
func subject(filter string) string {
	levels := strings.Split(filter, "/")
	for i, l := range levels {
		switch l {
		case "+":
			levels[i] = "*"
		case "#":
			levels[i] = ">"
		default:
			levels[i] = strings.ReplaceAll(l, ".", "//")
		}
	}
	return strings.Join(levels, ".")
}
