// SPDX-License-Identifier: Apache-2.0

package control

import "strings"

// groupPrefix begins the topics of groups; no device can be called so.
const groupPrefix = prefix + "_group/"

// GroupRequest is where a client asks whichever device of a group the broker chooses.
func GroupRequest(group, client, op string) string {
	return groupPrefix + group + "/req/" + client + "/" + op
}

// shared are the filters by which the boxes of a group share its requests.
func (s *Server) shared() []string {
	if !s.cfg.Share {
		return nil
	}
	var f []string
	for _, g := range s.cfg.Groups {
		f = append(f, "$share/"+g+"/"+GroupRequest(g, "+", "+"))
	}
	return f
}

// route takes a topic apart that is the device's own, or a request to one of its
// groups, then group is set.
func (s *Server) route(topic string) (route, bool) {
	if rest, ok := strings.CutPrefix(topic, groupPrefix); ok && s.cfg.Share {
		seg := strings.Split(rest, "/")
		if len(seg) != 4 || seg[1] != "req" || !ValidGroup(seg[0]) || !ValidClient(seg[2]) {
			return route{}, false
		}
		return route{class: "req", kind: seg[3], client: seg[2], group: seg[0]}, true
	}
	return s.topics.parseRoute(topic)
}

// misdirected refuses what only the box that has the other request can do: the broker
// may have chosen any.
func (r route) misdirected() *Error {
	if r.group != "" && (r.kind == OpCancel || r.kind == OpFetch) {
		return Errorf(Unsupported, "%s to a group: ask the device whose replies you hear", r.kind)
	}
	return nil
}
