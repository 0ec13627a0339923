package main

import (
	"os"
	"slices"
	"testing"
	"time"
)

// TestOnlyTheManagerIsStamped checks that an image changes with a commit only where its program reports the commit.
func TestOnlyTheManagerIsStamped(t *testing.T) {
	for _, p := range projectImages {
		flags, err := p.linkFlags(t.Context(), "../..")
		if err != nil {
			t.Fatal(err)
		}
		// The version follows from contents, not from times.
		if err := os.Chtimes("images_test.go", time.Now(), time.Now()); err != nil {
			t.Fatal(err)
		}
		again, err := p.linkFlags(t.Context(), "../..")
		if err != nil {
			t.Fatal(err)
		}
		if flags != again {
			t.Errorf("%s is built with %q and then with %q", p.name, flags, again)
		}
		if (flags != stripped) != (p.name == "manager") {
			t.Errorf("%s is built with %q", p.name, flags)
		}
	}
	if !slices.ContainsFunc(projectImages, func(p projectImage) bool { return p.stamped }) {
		t.Error("no program is stamped")
	}
}
