package shell

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"path"
	"strings"

	"mvdan.cc/sh/v3/interp"
)

func ls(c *commandContext) error {
	o, err := c.options("a1A")
	if err != nil {
		return err
	}
	if len(o.rest) == 0 {
		o.rest = []string{"."}
	}
	var lines []string
	for _, name := range o.rest {
		at, err := c.files.stat(c.path(name))
		if err != nil {
			return err
		}
		if !at.IsDir() {
			lines = append(lines, name)
			continue
		}
		entries, err := c.files.list(c.path(name))
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if !strings.HasPrefix(entry.Name(), ".") || len(o.set) > 0 && (o.has('a') || o.has('A')) {
				lines = append(lines, entry.Name())
			}
		}
	}
	return c.print(lines)
}

func mkdir(c *commandContext) error {
	o, err := c.options("p")
	if err != nil {
		return err
	}
	if err := c.atLeast(o, 1); err != nil {
		return err
	}
	for _, name := range o.rest {
		if err := c.files.mkdir(c.path(name), o.has('p')); err != nil {
			return err
		}
	}
	return nil
}

func rm(c *commandContext) error {
	o, err := c.options("rRf")
	if err != nil {
		return err
	}
	recursive := o.has('r') || o.has('R')
	for _, name := range o.rest {
		at, err := c.files.stat(c.path(name))
		switch {
		case err != nil && o.has('f') && errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case at.IsDir() && !recursive:
			return failed("remove", name, errors.New("is a directory"))
		}
		if err := c.files.remove(c.path(name), recursive); err != nil {
			return err
		}
	}
	return nil
}

// target is where a file goes that is copied or moved to a name.
func (c *commandContext) target(from, to string) string {
	to = c.path(to)
	if at, err := c.files.stat(to); err == nil && at.IsDir() {
		return path.Join(to, path.Base(from))
	}
	return to
}

func cp(c *commandContext) error {
	o, err := c.options("")
	if err != nil {
		return err
	}
	if err := c.atLeast(o, 2); err != nil {
		return err
	}
	return c.copyAll(o.rest, false)
}

func mv(c *commandContext) error {
	o, err := c.options("f")
	if err != nil {
		return err
	}
	if err := c.atLeast(o, 2); err != nil {
		return err
	}
	return c.copyAll(o.rest, true)
}

// copyAll copies all files but the last name to that, and with move deletes the originals.
func (c *commandContext) copyAll(names []string, move bool) error {
	last := len(names) - 1
	for _, from := range names[:last] {
		content, err := c.files.read(c.path(from))
		if err != nil {
			return err
		}
		to := c.target(from, names[last])
		if to == c.path(from) {
			continue
		}
		if err := c.files.write(to, content); err != nil {
			return err
		}
		if !move {
			continue
		}
		if err := c.files.remove(c.path(from), false); err != nil {
			return err
		}
	}
	return nil
}

func touch(c *commandContext) error {
	o, err := c.options("")
	if err != nil {
		return err
	}
	for _, name := range o.rest {
		if _, err := c.files.stat(c.path(name)); err == nil {
			continue
		}
		if err := c.files.write(c.path(name), nil); err != nil {
			return err
		}
	}
	return nil
}

func sha256sum(c *commandContext) error {
	o, err := c.options("")
	if err != nil {
		return err
	}
	if len(o.rest) == 0 {
		o.rest = []string{"-"}
	}
	var lines []string
	for _, name := range o.rest {
		content, err := c.read(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		lines = append(lines, hex.EncodeToString(sum[:])+"  "+name)
	}
	return c.print(lines)
}

func grep(c *commandContext) error {
	o, err := c.options("EFivqco")
	if err != nil {
		return err
	}
	if err := c.atLeast(o, 1); err != nil {
		return err
	}
	find, err := search(o)
	if err != nil {
		return c.usage("%v", err)
	}
	lines, err := c.lines(o.rest[1:])
	if err != nil {
		return err
	}
	var found []string
	for _, line := range lines {
		at := find(line)
		switch {
		case (at != nil) == o.has('v'):
		case o.has('o') && at != nil:
			found = append(found, line[at[0]:at[1]])
		default:
			found = append(found, line)
		}
	}
	count := len(found)
	switch {
	case o.has('q'):
		found = nil
	case o.has('c'):
		found = []string{decimal(count)}
	}
	if err := c.print(found); err != nil {
		return err
	}
	if count == 0 {
		return interp.ExitStatus(1)
	}
	return nil
}
