package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// refBefore returns the commit that the version before is built of: the wanted one, or the commit before. A shallow
// clone may have no commit before, and then the version before has the same source under another version.
func refBefore(wanted string, git func(...string) (string, error)) (string, error) {
	exists := func(ref string) bool {
		_, err := git("rev-parse", "--verify", "--quiet", ref+"^{commit}")
		return err == nil
	}
	if wanted != "" {
		if !exists(wanted) {
			return "", fmt.Errorf("this clone has no commit %s: fetch it first", wanted)
		}
		return wanted, nil
	}
	if exists("HEAD~1") {
		return "HEAD~1", nil
	}
	shallow, err := git("rev-parse", "--is-shallow-repository")
	if err != nil {
		return "", err
	}
	if shallow != "true" {
		return "", errors.New("there is no commit before this one: name one with INSTALL_BEFORE")
	}
	fmt.Println("--- this clone is shallow and lacks the commit before: the same source is built as the version before")
	return "HEAD", nil
}

func TestTheVersionBeforeIsThatWhichTheCloneHas(t *testing.T) {
	for name, test := range map[string]struct {
		wanted, has, shallow string
		want, names          string
	}{
		"the commit before":         {"", "HEAD~1", "false", "HEAD~1", ""},
		"the wanted one":            {"v1.0.0", "HEAD~1 v1.0.0", "false", "v1.0.0", ""},
		"a wanted one that lacks":   {"v1.0.0", "HEAD~1", "true", "", "v1.0.0"},
		"a shallow clone":           {"", "", "true", "HEAD", ""},
		"a clone of the first one":  {"", "", "false", "", "INSTALL_BEFORE"},
		"a shallow one with enough": {"", "HEAD~1", "true", "HEAD~1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := refBefore(test.wanted, func(args ...string) (string, error) {
				if args[1] == "--is-shallow-repository" {
					return test.shallow, nil
				}
				ref := strings.TrimSuffix(args[len(args)-1], "^{commit}")
				for has := range strings.FieldsSeq(test.has) {
					if has == ref {
						return ref, nil
					}
				}
				return "", errors.New("unknown revision")
			})
			if got != test.want || (test.names != "") != (err != nil) ||
				err != nil && !strings.Contains(err.Error(), test.names) {
				t.Errorf("got %q, %v; want %q, an error that names %q", got, err, test.want, test.names)
			}
		})
	}
}
