// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"windhover/appliance"
)

func manPage(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "packaging", "man", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// windhover(1) names every verb, and no flag that there is not.
func TestManVerbsAndFlags(t *testing.T) {
	page := manPage(t, "windhover.1")
	flags := map[string]bool{"help": true} // cobra adds it when a command runs
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, set := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
		}
		for _, c := range cmd.Commands() {
			verb := strings.TrimPrefix(c.CommandPath(), "windhover ")
			if len(c.Commands()) == 0 && verb != "serve" && !strings.Contains(page, verb) {
				t.Errorf("windhover.1 does not name %q", verb)
			}
			walk(c)
		}
	}
	walk(newRoot())
	named := regexp.MustCompile(`Fl Fl ([a-z0-9-]+)`).FindAllStringSubmatch(page+manPage(t, "windhover.8"), -1)
	if len(named) == 0 {
		t.Fatal("the pages name no flags")
	}
	for _, m := range named {
		if !flags[m[1]] {
			t.Errorf("the pages name --%s, which no verb has", m[1])
		}
	}
}

// windhover(1) names every flag of every verb, once for those that share it; those
// of serve are in windhover(8).
func TestManNamesEveryFlag(t *testing.T) {
	named := map[string]map[string]bool{"windhover.1": {}, "windhover.8": {}}
	for name, flags := range named {
		for _, m := range regexp.MustCompile(`Fl Fl ([a-z0-9-]+)`).FindAllStringSubmatch(manPage(t, name), -1) {
			flags[m[1]] = true
		}
	}
	var seen int
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		page := "windhover.1"
		if cmd.Name() == "serve" {
			page = "windhover.8"
		}
		for _, set := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) {
				if seen++; !f.Hidden && f.Name != "help" && !named[page][f.Name] {
					t.Errorf("%s does not name --%s of %s", page, f.Name, cmd.CommandPath())
				}
			})
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRoot())
	if seen < 100 {
		t.Fatalf("only %d flags were looked up", seen)
	}
}

// windhover.toml(5) names every key of the configuration but those that have one value
// only so far, and the tables of lists.
func TestManConfiguration(t *testing.T) {
	page := manPage(t, "windhover.toml.5")
	const later = " engine.kv engine.residency drop.require_signature vqf.key_file "
	var walk func(v reflect.Type, prefix string)
	walk = func(v reflect.Type, prefix string) {
		for i := range v.NumField() {
			f := v.Field(i)
			key := prefix + f.Tag.Get("toml")
			if f.Type.Kind() == reflect.Struct {
				walk(f.Type, key+".")
				continue
			}
			if !strings.Contains(page, key) && !strings.Contains(later, " "+key+" ") {
				t.Errorf("windhover.toml.5 does not name %s", key)
			}
		}
	}
	walk(reflect.TypeFor[appliance.Config](), "")
}
