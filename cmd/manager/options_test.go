package main

import (
	"slices"
	"strings"
	"testing"
)

func TestTheNamespacesToWatch(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want []string
		err  string
	}{
		"all of them":    {nil, nil, ""},
		"one":            {[]string{"--watch-namespaces=a"}, []string{"a"}, ""},
		"a list":         {[]string{"--watch-namespaces=a, b,a"}, []string{"a", "b"}, ""},
		"several lists":  {[]string{"--watch-namespaces=a", "--watch-namespaces=b"}, []string{"a", "b"}, ""},
		"an empty list":  {[]string{"--watch-namespaces="}, nil, `"" is not the name of a namespace`},
		"an empty entry": {[]string{"--watch-namespaces=a,"}, nil, `"" is not the name of a namespace`},
		"a wildcard":     {[]string{"--watch-namespaces=*"}, nil, `"*" is not the name of a namespace`},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parse(append(test.args, "--launcher-image=example.org/launcher:1"))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("the error is %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil || !slices.Equal(o.namespaces, test.want) {
				t.Errorf("the namespaces are %q, error %v; want %q", o.namespaces, err, test.want)
			}
		})
	}
}
