package main

import (
	"encoding/json"
	"strings"

	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// toolEnvironment returns the environment of the tool: that of the container without the launcher's own variables, and
// a variable for every declared argument that has a scalar value. Text that is not a JSON object declares nothing.
func toolEnvironment(container []string, arguments []byte, scalars []string) []string {
	environment := make([]string, 0, len(container)+len(scalars))
	for _, variable := range container {
		if strings.HasPrefix(variable, result.EnvLauncherPrefix) || strings.HasPrefix(variable, result.EnvArgumentPrefix) {
			continue
		}
		environment = append(environment, variable)
	}
	var values map[string]json.RawMessage
	if json.Unmarshal(arguments, &values) != nil {
		return environment
	}
	clashes := map[string]int{}
	for _, name := range scalars {
		clashes[variableName(name)]++
	}
	for _, name := range scalars {
		variable := variableName(name)
		// Two arguments under one name would hide each other, so neither gets it.
		if clashes[variable] > 1 {
			continue
		}
		if value, ok := scalarText(values[name]); ok {
			environment = append(environment, variable+"="+value)
		}
	}
	return environment
}

// variableName is the name of an argument's variable: upper case, with an underscore for each character that a name
// cannot have.
func variableName(argument string) string {
	var name strings.Builder
	name.WriteString(result.EnvArgumentPrefix)
	for _, r := range argument {
		switch {
		case r >= 'a' && r <= 'z':
			name.WriteRune(r - 'a' + 'A')
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			name.WriteRune(r)
		default:
			name.WriteByte('_')
		}
	}
	return name.String()
}

// scalarText returns the value of a variable: a string as it is, a number as its JSON text, a boolean as true or false.
// There is none for anything else, for texts longer than MaxScalarBytes, and for texts with a NUL byte, which no
// variable can hold.
func scalarText(value json.RawMessage) (string, bool) {
	if len(value) == 0 {
		return "", false
	}
	text := string(value)
	switch value[0] {
	case '"':
		if json.Unmarshal(value, &text) != nil {
			return "", false
		}
	case '{', '[', 'n':
		return "", false
	}
	if len(text) > result.MaxScalarBytes || strings.IndexByte(text, 0) >= 0 {
		return "", false
	}
	return text, true
}
