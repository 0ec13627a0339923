package sessionsecret

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Scheme is the beginning of a reference to a secret. Its name follows.
const Scheme = "secret://"

// Reference is a string in the JSON of arguments that refers to a secret.
type Reference struct {
	// Name of the secret, as it was written.
	Name string
	// start and end are where the string is, with its quotation marks.
	start, end int
}

// References returns the references in arguments, which are JSON, at any of these JSON Pointers. A member that occurs
// several times may have several.
func References(arguments string, pointers []string) ([]Reference, error) {
	if len(pointers) == 0 || !mayRefer(arguments) {
		return nil, nil
	}
	w := walker{text: arguments, decoder: json.NewDecoder(strings.NewReader(arguments)), pointers: pointers}
	if err := w.value(""); err != nil {
		return nil, fmt.Errorf("reading the arguments: %w", err)
	}
	return w.found, nil
}

// mayRefer reports whether JSON may have a reference: as it is, or with characters that are escaped.
func mayRefer(arguments string) bool {
	return strings.Contains(arguments, Scheme) || strings.Contains(arguments, `\`)
}

// walker looks for references. It descends only towards the pointers, whose length bounds its depth.
type walker struct {
	text     string
	decoder  *json.Decoder
	pointers []string
	found    []Reference
}

func (w *walker) value(path string) error {
	here, below := w.leads(path)
	if !here && !below {
		return w.decoder.Decode(&json.RawMessage{})
	}
	before := int(w.decoder.InputOffset())
	token, err := w.decoder.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case string:
		if name, refers := strings.CutPrefix(token, Scheme); here && refers {
			end := int(w.decoder.InputOffset())
			start := before + strings.IndexByte(w.text[before:end], '"')
			w.found = append(w.found, Reference{Name: name, start: start, end: end})
		}
	case json.Delim:
		return w.members(path, token == '[')
	}
	return nil
}

// members reads the rest of an array or an object.
func (w *walker) members(path string, array bool) error {
	for i := 0; w.decoder.More(); i++ {
		name := strconv.Itoa(i)
		if !array {
			token, err := w.decoder.Token()
			if err != nil {
				return err
			}
			name = escape.Replace(fmt.Sprint(token))
		}
		if err := w.value(path + "/" + name); err != nil {
			return err
		}
	}
	_, err := w.decoder.Token()
	return err
}

// escape writes the name of a member as a part of a JSON Pointer.
var escape = strings.NewReplacer("~", "~0", "/", "~1")

// leads reports whether a path is one of the pointers, and whether one of them is below it.
func (w *walker) leads(path string) (here, below bool) {
	for _, p := range w.pointers {
		here = here || p == path
		below = below || strings.HasPrefix(p, path+"/")
	}
	return here, below
}

// Replace returns arguments with the values of the secrets in the place of the references. It fails if they would have
// more than this number of bytes: a model can refer to a secret many times.
func Replace(arguments string, references []Reference, values map[string]string, most int) (string, error) {
	var filled strings.Builder
	end := 0
	for _, r := range references {
		value, err := json.Marshal(values[r.Name])
		if err != nil {
			return "", fmt.Errorf("encoding a secret: %w", err)
		}
		if filled.Len()+len(value)+len(arguments)-end > most {
			return "", fmt.Errorf("the arguments with the values of their secrets have more than %d bytes", most)
		}
		filled.WriteString(arguments[end:r.start])
		filled.Write(value)
		end = r.end
	}
	filled.WriteString(arguments[end:])
	return filled.String(), nil
}
