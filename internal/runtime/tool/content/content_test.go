package content

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

const (
	// pngData and gifData begin as images of their types do.
	pngData = "iVBORw0KGgo="
	gifData = "R0lGODlhAQABAAAAACw="
)

var (
	png = event.Part{Type: event.PartImage, MediaType: "image/png", Base64: pngData}
	gif = event.Part{Type: event.PartImage, MediaType: "image/gif", Base64: gifData}
)

const (
	pngBlock = `{"type": "image", "data": "` + pngData + `", "mimeType": "image/png"}`
	gifBlock = `{"type":"image","mimeType":"image/gif","data":"` + gifData + `"}`
)

// Rules: TOOL-05.
func TestAResultWithImages(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []event.Part
	}{
		"one image":        {"[" + pngBlock + "]", []event.Part{png}},
		"with white space": {"\n [ " + pngBlock + " ]\n", []event.Part{png}},
		"texts and images in order": {
			`[{"type":"text","text":"before"},` + gifBlock + `,{"type":"text","text":""},` + pngBlock + `]`,
			[]event.Part{event.Text("before"), gif, png},
		},
		"texts that follow each other": {
			`[{"type":"text","text":"one"},{"type":"text","text":" "},{"type":"text","text":"two"},` + pngBlock + `]`,
			[]event.Part{event.Text("one\ntwo"), png},
		},
		"fields that the protocol adds": {
			`[{"type":"image","mimeType":"image/png","data":"` + pngData + `","annotations":{"priority":1},"_meta":{}}]`,
			[]event.Part{png},
		},
		"base64 with line breaks": {
			`[{"type":"image","mimeType":"image/png","data":"iVBO\nRw0KGgo=\n"}]`, []event.Part{png},
		},
		"other blocks": {
			`[` + pngBlock + `,{"type":"audio","mimeType":"audio/wav","data":"UklGRg=="},` +
				`{"type":"resource_link","uri":"file:///a","name":"a"}]`,
			[]event.Part{
				png, event.Text("(Left out: audio, which the model is not given.)\n" +
					`{"type":"resource_link","uri":"file:///a","name":"a"}`),
			},
		},
		"an unknown format": {
			`[{"type":"image","mimeType":"image/tiff","data":"` + pngData + `"}]`,
			[]event.Part{event.Text(
				`(Left out: an image of type "image/tiff". The types are image/png, image/jpeg, image/gif, image/webp.)`)},
		},
		"data of another type": {
			`[{"type":"image","mimeType":"image/jpeg","data":"` + pngData + `"}]`,
			[]event.Part{event.Text("(Left out: an image whose data is not of type image/jpeg.)")},
		},
		"data that is not base64": {
			`[{"type":"image","mimeType":"image/png","data":"%%%"}]`,
			[]event.Part{event.Text("(Left out: an image whose data is not base64 with padding.)")},
		},
		"no data": {
			`[{"type":"image","mimeType":"image/png","data":""}]`,
			[]event.Part{event.Text("(Left out: an image whose data is not base64 with padding.)")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Parts(test.text); !reflect.DeepEqual(got, test.want) {
				t.Errorf("the parts are %+v", got)
			}
		})
	}
}

// Rules: TOOL-05.
func TestAnyOtherResultIsOneText(t *testing.T) {
	for _, text := range []string{
		"", "rain", "null", "[]", `["image"]`, `{"type":"image","mimeType":"image/png","data":"` + pngData + `"}`,
		`[{"type":"text","text":"\"image\""}]`, `[{"type":"image"}]`, `[{"type":"image","mimeType":"image/png"}]`,
		`[{"type":"image","mimeType":7,"data":"x"}]`, `[{"type":"text"},` + pngBlock + `]`,
		`[` + pngBlock + `, "text"]`, `[` + pngBlock + `, {"type":"video"}]`, `[` + pngBlock + `, {"a": 1}]`,
		`[` + pngBlock, `[` + pngBlock + `] and more`, `[` + pngBlock + `]]`, `[` + pngBlock + ` ` + pngBlock + `]`,
		`[{"type":"image","mimeType":"image/png","data":"iVBO`, "the \"image\" is [here]",
	} {
		if got := Parts(text); !reflect.DeepEqual(got, []event.Part{event.Text(text)}) {
			t.Errorf("the parts of %q are %+v", text, got)
		}
		if got := Preview(text); got != text {
			t.Errorf("the words of %q are %q", text, got)
		}
	}
}

func TestImagesAreCounted(t *testing.T) {
	text := "[" + strings.Repeat(pngBlock+",", MaxImages+1) + `{"type":"text","text":"end"}]`
	parts := Parts(text)
	if len(parts) != MaxImages+1 || parts[MaxImages-1] != png ||
		parts[MaxImages] != event.Text("(Left out: further images. A result has at most 8 of them.)\nend") {
		t.Errorf("the parts are %+v", parts)
	}
}

// TestAResultDoesNotGrow: as many small blocks as a result has room for are neither many parts nor a long text.
func TestAResultDoesNotGrow(t *testing.T) {
	for name, block := range map[string]string{
		"images without data": `{"type":"image","mimeType":"","data":""},`,
		"audio":               `{"type":"audio"},`,
		"empty texts":         `{"type":"text","text":""},`,
		"short texts":         `{"type":"text","text":"a"},`,
		"resources":           `{"type":"resource"},`,
		"images and texts":    pngBlock + `,{"type":"text","text":"a"},`,
	} {
		t.Run(name, func(t *testing.T) {
			count := (result.MaxResultBytes - len(pngBlock) - 2) / len(block)
			parts := Parts("[" + strings.Repeat(block, count) + pngBlock + "]")
			size := 0
			for _, p := range parts {
				size += len(p.Text) + len(p.Base64)
			}
			if len(parts) > 2*MaxImages+1 || size > result.MaxResultBytes {
				t.Errorf("%d blocks become %d parts of %d bytes", count, len(parts), size)
			}
		})
	}
}

func TestATextBeforeAnImageThatIsCut(t *testing.T) {
	output := `[{"type":"text","text":"before"}, {"type":"image","data":"` + strings.Repeat(
		"A",
		result.MaxResultBytes,
	) + `"}]`
	text, _ := result.Cut([]byte(output), int64(len(output)))
	parts := Parts(text)
	if len(parts) != 1 ||
		!strings.HasPrefix(parts[0].Text, "before\n(Left out: an image at the end of a result that is too ") {
		t.Errorf("the parts are %.300v", fmt.Sprint(parts))
	}
}

// TestAResultThatIsCut has images that end behind the bound: the model is never shown half of one.
func TestAResultThatIsCut(t *testing.T) {
	long := strings.Repeat("A", result.MaxResultBytes)
	before := `{"type":"text","text":"before"}`
	for name, test := range map[string]struct {
		output string
		want   []event.Part
		lost   string
	}{
		"the only image": {
			`[{"type":"image","mimeType":"image/png","data":"` + pngData + long + `"}]`, nil, "an image at the end",
		},
		"an image with _meta": {`[{"_meta":"a","type":"image","data":"` + long + `"}]`, nil, "an image at the end"},
		"a second image": {
			`[` + gifBlock + `,{"type":"image","data":"` + long + `"}]`, []event.Part{gif}, "an image at the end",
		},
		"a text after images":  {`[` + pngBlock + `,{"type":"text","text":"` + long + `"}]`, []event.Part{png}, "the rest"},
		"one of several":       {`[` + gifBlock + `,{"data":"` + long + `","type":"image"}]`, []event.Part{gif}, "the rest"},
		"a list without end":   {`[` + pngBlock + strings.Repeat(" ", len(long)), []event.Part{png}, "the rest"},
		"the end of the list":  {`[` + pngBlock + `]` + strings.Repeat(" ", len(long)), []event.Part{png}, "the rest"},
		"a comma and no block": {`[` + pngBlock + `,` + strings.Repeat(" ", len(long)), []event.Part{png}, "the rest"},
	} {
		t.Run(name, func(t *testing.T) {
			text, cut := result.Cut([]byte(test.output), int64(len(test.output)))
			parts := Parts(text)
			last := len(parts) - 1
			if !cut || !reflect.DeepEqual(append([]event.Part{}, parts[:last]...), append([]event.Part{}, test.want...)) ||
				!strings.Contains(parts[last].Text, test.lost+" of a result that is too large. A result has at most 65536 bytes") {
				t.Errorf("the parts are %.300v", fmt.Sprint(parts))
			}
			open := Parts(result.CutOpen([]byte(test.output)))
			if !reflect.DeepEqual(open, parts) {
				t.Errorf("of unknown length the parts are %.300v", fmt.Sprint(open))
			}
		})
	}
	for name, output := range map[string]string{
		"texts":           `[` + before + `,{"type":"text","text":"an \"image\" ` + long + `"}]`,
		"another list":    `[{"name":"image","type":"` + long + `"}]`,
		"a type too late": `[{"mimeType":"image/png","data":"` + long + `","type":"image"}]`,
	} {
		text, _ := result.Cut([]byte(output), int64(len(output)))
		if parts := Parts(text); len(parts) != 1 || parts[0].Text != text {
			t.Errorf("%s: the parts are %.300v", name, fmt.Sprint(parts))
		}
	}
}

func TestOneImage(t *testing.T) {
	data, _ := base64.StdEncoding.DecodeString(gifData)
	if parts := Parts(FromImage("image/gif", data, int64(len(data)))); !reflect.DeepEqual(parts, []event.Part{gif}) {
		t.Errorf("the parts are %+v", parts)
	}
	room := (result.MaxResultBytes - len(`[{"type":"image","mimeType":"image/gif","data":""}]`)) / 4 * 3
	if about := fmt.Sprintf("one image has at most about %d KiB", (room+512)>>10); !strings.Contains(tooLarge, about) {
		t.Errorf("%s in %q", about, tooLarge)
	}
	for size, fits := range map[int]bool{room: true, room + 1: false} {
		text := FromImage("image/gif", append(data, make([]byte, size-len(data))...), int64(size))
		if len(text) > result.MaxResultBytes || fits != (Parts(text)[0].Type == event.PartImage) {
			t.Errorf("%d bytes become %d bytes: %.100s", size, len(text), text)
		}
	}
	for _, size := range []int64{1 << 20, -1} {
		text := FromImage("image/gif", data, size)
		if parts := Parts(text); parts[0] != event.Text(text) || !strings.Contains(text, "too large") ||
			strings.Contains(text, "1048576") != (size > 0) {
			t.Errorf("the start of an image becomes %q", text)
		}
	}
}

func TestAnEmptyImageIsNoted(t *testing.T) {
	const want = "(Left out: an image of type image/png without data.)"
	if got := FromImage("image/png", nil, 0); got != want {
		t.Errorf("the result is %q", got)
	}
}

func TestBlocksAreReadBack(t *testing.T) {
	data, _ := base64.StdEncoding.DecodeString(pngData)
	text, err := json.Marshal([]Block{Text("A <plot>"), Image("image/png", data), Text("")})
	if err != nil || !reflect.DeepEqual(Parts(string(text)), []event.Part{event.Text("A <plot>"), png}) {
		t.Errorf("%s, %v", text, err)
	}
	if words := Preview(string(text)); words != "A <plot>\n(image/png)" {
		t.Errorf("the words are %q", words)
	}
}

func FuzzParts(f *testing.F) {
	f.Add("["+pngBlock+"]", 3)
	f.Add("["+pngBlock+","+gifBlock, 70_000)
	f.Fuzz(func(t *testing.T, text string, blanks int) {
		if blanks > 0 && blanks < 1<<17 {
			text, _ = result.Cut([]byte(text+strings.Repeat(" ", blanks)), 0)
		}
		text, size := strings.ToValidUTF8(text, "?"), 0
		for _, p := range Parts(text) {
			size += len(p.Text) + len(p.Base64)
			if p.Type == event.PartImage {
				if _, err := base64.StdEncoding.DecodeString(p.Base64); err != nil || p.MediaType == "" {
					t.Errorf("an image %+v", p)
				}
			}
		}
		if count := len(Parts(text)); size > len(text)+1500 || count > 2*MaxImages+1 {
			t.Errorf("%d bytes become %d in %d parts", len(text), size, count)
		}
	})
}

// Rules: IMG-03.
func TestAResultNamesStoredImages(t *testing.T) {
	id := event.ImageIDOf([]byte("img"))
	named := event.Part{Type: event.PartImage, ImageID: id}
	block := `{"type":"image_file","image_id":"` + id + `"}`
	var many []string
	for range MaxImages + 2 {
		many = append(many, block)
	}
	for _, test := range []struct {
		text  string
		want  []event.Part
		shown string
	}{
		{`[` + block + `]`, []event.Part{named}, "(" + id + ")"},
		{
			`[{"type":"text","text":"A plot."},` + block + `]`,
			[]event.Part{event.Text("A plot."), named},
			"A plot.\n(" + id + ")",
		},
		{
			`[{"type":"image_file","image_id":"../` + id + `"}]`,
			[]event.Part{event.Text("(Left out: an image whose id is not one.)")},
			"(Left out: an image whose id is not one.)",
		},
		{`[{"type":"image_file"}]`, []event.Part{event.Text(`[{"type":"image_file"}]`)}, `[{"type":"image_file"}]`},
		{block, []event.Part{event.Text(block)}, block},
	} {
		if got := Parts(test.text); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s has the parts %+v", test.text, got)
		}
		if got := Preview(test.text); got != test.shown {
			t.Errorf("%s is shown as %s", test.text, got)
		}
	}
	if got := Parts("[" + strings.Join(many, ",") + "]"); len(got) != MaxImages+1 || !strings.Contains(
		got[MaxImages].Text, "at most 8") {
		t.Errorf("of %d images there are %+v", len(many), got)
	}
	raw, err := json.Marshal([]Block{Stored(id)})
	if err != nil || string(raw) != "["+block+"]" {
		t.Errorf("the block is %s, %v", raw, err)
	}
}
