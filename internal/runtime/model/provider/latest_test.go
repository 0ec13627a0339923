package provider

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// album is a conversation with a number of images, three of them in each message, of the user and of tools by turns.
func album(images int) []event.Message {
	var messages []event.Message
	for i := range images {
		if i%3 == 0 {
			m := user("Look.")
			if i%2 == 1 {
				m = gave("1-0", "A view.")
			}
			messages = append(messages, m)
		}
		last := &messages[len(messages)-1]
		last.Content = append(last.Content, event.Part{Type: event.PartImage, URL: fmt.Sprint("https://", i)})
	}
	return messages
}

// remaining are the addresses of the images in messages, and the number of notes about others.
func remaining(messages []event.Message) (urls []string, notes int) {
	for _, m := range messages {
		for _, p := range m.Content {
			switch {
			case p.Type == event.PartImage:
				urls = append(urls, p.URL)
			case p.Text == noteOlderImage:
				notes++
			}
		}
	}
	return urls, notes
}

func TestTheLatestImagesAreKept(t *testing.T) {
	for name, test := range map[string]struct{ images, most, kept int }{
		"none":                    {0, 10, 0},
		"as many as accepted":     {10, 10, 10},
		"one more":                {11, 10, 9},
		"a whole batch more":      {12, 10, 10},
		"many more":               {101, 10, 9},
		"a limit below the batch": {7, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			given := album(test.images)
			all, _ := remaining(given)
			kept := LatestImages(given, test.most)
			urls, notes := remaining(kept)
			if len(urls) != test.kept || notes != test.images-test.kept ||
				test.kept > 0 && !reflect.DeepEqual(urls, all[notes:]) {
				t.Errorf("%d notes, and the images %v", notes, urls)
			}
			if !reflect.DeepEqual(given, album(test.images)) {
				t.Error("the given messages have changed")
			}
		})
	}
}

// Each change of messages that were sent before makes the provider read the whole conversation again.
func TestOlderImagesAreLeftOutInBatches(t *testing.T) {
	const most, images = 100, 300
	changes := 0
	before := LatestImages(album(most-1), most)
	for n := most + 2; n <= images; n += 3 {
		now := LatestImages(album(n), most)
		if !reflect.DeepEqual(now[:len(before)], before) {
			changes++
		}
		before = now
	}
	if changes != (images-most)/(most/imageBatches) {
		t.Errorf("the beginning has changed %d times", changes)
	}
}
