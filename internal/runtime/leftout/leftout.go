// Package leftout marks the texts that a cache leaves out of an object, so that a text which was not read cannot be
// taken for one that was.
package leftout

import (
	"reflect"
	"strconv"
	"strings"
)

// prefix begins every mark. It is not UTF-8, so that no text of the API server begins with it.
const prefix = "\xff"

// Mark stands in for texts of the given size. The note is kept with it.
func Mark(bytes int64, note string) string {
	return prefix + strconv.FormatInt(bytes, 10) + " " + note
}

// Is reports whether a text is a mark.
func Is(text string) bool {
	return strings.HasPrefix(text, prefix)
}

// Bytes returns the size of the texts that a mark stands for; 0 if the text is no mark.
func Bytes(text string) int64 {
	size, _, _ := parse(text)
	return size
}

// Note returns the note in a mark, and whether the text is a mark.
func Note(text string) (string, bool) {
	_, note, ok := parse(text)
	return note, ok
}

func parse(text string) (bytes int64, note string, ok bool) {
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return 0, "", false
	}
	size, note, _ := strings.Cut(rest, " ")
	bytes, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return 0, "", false
	}
	return bytes, note, true
}

// perItem is about what a field, an item of a list or an entry of a map takes besides its text.
const perItem = 16

// Size returns about how much memory a value takes: its texts, and a little for each field and item.
func Size(value any) int64 {
	return size(reflect.ValueOf(value))
}

func size(v reflect.Value) int64 {
	switch v.Kind() {
	case reflect.String:
		return perItem + int64(v.Len())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return perItem
		}
		return perItem + size(v.Elem())
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return perItem + int64(v.Len())
		}
		n := int64(perItem)
		for i := range v.Len() {
			n += size(v.Index(i))
		}
		return n
	case reflect.Map:
		n := int64(perItem)
		for items := v.MapRange(); items.Next(); {
			n += size(items.Key()) + size(items.Value())
		}
		return n
	case reflect.Struct:
		n := int64(0)
		for i := range v.NumField() {
			n += size(v.Field(i))
		}
		return n
	default:
		return perItem
	}
}
