package config

import (
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestTheLocaleOfAMessageComesBeforeThatOfTheSession(t *testing.T) {
	for name, test := range map[string]struct {
		controls      *v1alpha1.TurnControls
		session, want string
	}{
		"neither":                              {want: ""},
		"the Session's":                        {session: "de-CH", want: "de-CH"},
		"controls without a locale":            {controls: &v1alpha1.TurnControls{}, session: "de-CH", want: "de-CH"},
		"the message's":                        {controls: &v1alpha1.TurnControls{Locale: "fr"}, want: "fr"},
		"the message's before the Session's":   {controls: &v1alpha1.TurnControls{Locale: "fr"}, session: "de-CH", want: "fr"},
		"blanks are none":                      {controls: &v1alpha1.TurnControls{Locale: " \t"}, session: "de-CH", want: "de-CH"},
		"blanks around one are not part of it": {controls: &v1alpha1.TurnControls{Locale: " fr "}, session: "de-CH", want: "fr"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Locale(test.controls, test.session); got != test.want {
				t.Errorf("Locale = %q, want %q", got, test.want)
			}
		})
	}
}
