package transcript

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/history"
	"github.com/capstan-dev/capstan/internal/cli/text"
	"github.com/capstan-dev/capstan/internal/runtime/cost"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
)

// labels is the width of the column of labels.
const labels = 11

// brief is how much of a text that is not the conversation itself is shown.
var brief = text.Bound{Lines: 12, Bytes: 2048}

// unless the whole is requested, a message is shown up to here.
var long = text.Bound{Lines: 400, Bytes: 64 << 10}

// Options are what a transcript shows.
type Options struct {
	// Full shows texts of any length, Times the time of each event.
	Full, Times bool
	// Shown is a Turn whose own message is on the terminal already, because it was typed there.
	Shown types.UID
}

// Transcript turns events into lines. The zero value is not usable.
type Transcript struct {
	options Options
	turn    types.UID
	// shown is the id of the message whose text is on the terminal already, from deltas.
	shown  string
	totals totals
}

// totals are those of the Turn that is shown.
type totals struct {
	calls    int
	tools    int
	tokens   int64
	cost     []v1alpha1.Cost
	unpriced int
	started  time.Time
}

// New returns an empty transcript.
func New(o Options) *Transcript {
	return &Transcript{options: o}
}

// Streamed marks a message as shown: its text was printed as it arrived.
func (t *Transcript) Streamed(message string) {
	t.shown = message
}

// Ends reports whether an event ends a Turn.
func Ends(e event.Event) bool {
	return e.Type == event.TypeTurnCompleted || e.Type == event.TypeTurnFailed
}

// Lines returns the lines of the next item.
func (t *Transcript) Lines(item history.Item) []text.Line {
	var lines []text.Line
	if item.Turn.UID != t.turn && item.Event.Type != event.TypeSessionActivated {
		lines = t.begin(item)
	}
	if item.Decision != nil {
		return append(lines, decision(item))
	}
	more, err := t.event(item.Event)
	if err != nil {
		more = label(text.Bad, "unreadable", text.Plain, err.Error(), brief)
	}
	if t.options.Times && len(more) > 0 && !item.Event.Time.IsZero() {
		stamp := text.Span{Style: text.Faint, Text: item.Event.Time.UTC().Format("15:04:05.000") + " "}
		more[0] = append(text.Line{stamp}, more[0]...)
	}
	return append(lines, more...)
}

// begin returns the heading of a Turn.
func (t *Transcript) begin(item history.Item) []text.Line {
	lines := t.heading(item.Turn.UID, item.Turn.Name, item.Event.Time.Time)
	if item.Turn.UID == t.options.Shown {
		return nil
	}
	return lines
}

func (t *Transcript) heading(turn types.UID, name string, at time.Time) []text.Line {
	first := t.turn == ""
	t.turn, t.totals = turn, totals{started: at}
	heading := text.Line{{Style: text.Strong, Text: "── " + name}}
	if !at.IsZero() {
		heading = append(heading, text.Span{Style: text.Faint, Text: at.UTC().Format("  2006-01-02 15:04:05 UTC")})
	}
	if first {
		return []text.Line{heading}
	}
	return []text.Line{nil, heading}
}

// Begin returns the heading and the message of a Turn that has begun, before its first step has ended and the journal
// has them. It returns nothing for a Turn that was shown.
func (t *Transcript) Begin(turn *v1alpha1.Turn) []text.Line {
	if turn.UID == t.turn || turn.UID == t.options.Shown {
		return nil
	}
	t.options.Shown = turn.UID
	lines := t.heading(turn.UID, turn.Name, turn.CreationTimestamp.Time)
	message := event.Message{Content: []event.Part{event.Text(turn.Spec.Input)}}
	if turn.Spec.Message != nil {
		message.Content = nil
		for _, part := range turn.Spec.Message.Content {
			if part.Image != nil {
				message.Content = append(message.Content, event.Part{
					Type: event.PartImage, MediaType: string(part.Image.MediaType), URL: part.Image.URL, Base64: part.Image.Data,
				})
				continue
			}
			if part.ImageRef != nil {
				message.Content = append(message.Content, event.Part{Type: event.PartImage, ImageID: part.ImageRef.ID})
				continue
			}
			message.Content = append(message.Content, event.Text(part.Text))
		}
	}
	return append(lines, t.content("you", text.User, message)...)
}

func decision(item history.Item) text.Line {
	d := item.Decision
	word, style := "approved", text.Good
	if d.Decision == v1alpha1.DecisionReject {
		word, style = "rejected", text.Bad
	}
	line := text.Line{
		{Style: style, Text: text.Pad(word, labels)},
		{Text: d.ID},
		{Style: text.Faint, Text: " by " + d.By},
	}
	if d.Error != nil {
		line = append(line, text.Span{Text: ": " + *d.Error})
	}
	return line
}

// event returns the lines of an event; none for one that says nothing to a reader.
func (t *Transcript) event(e event.Event) ([]text.Line, error) {
	switch e.Type {
	case event.TypeInputMessage:
		return t.input(e)
	case event.TypeOutputMessageCompleted:
		return t.output(e)
	case event.TypeToolCompleted:
		return t.toolCompleted(e)
	case event.TypeToolRateLimited:
		return t.rateLimited(e)
	case event.TypeLLMGeneration:
		return t.generation(e)
	case event.TypeReasonRecovered, event.TypeTranscriptRepaired:
		return repaired(e)
	case event.TypeContextCompacted:
		return compacted(e)
	case event.TypeSubAgentSpawned, event.TypeSubAgentFailed, event.TypeSubAgentCancelled:
		return subAgent(e)
	case event.TypeTurnCompleted:
		return t.completed(e)
	case event.TypeTurnFailed:
		return t.failed(e)
	default:
		return nil, nil
	}
}

func (t *Transcript) input(e event.Event) ([]text.Line, error) {
	data, err := event.Decode[event.InputMessage](e)
	if err != nil {
		return nil, err
	}
	var lines []text.Line
	if data.Message.ID == "" || data.Message.ID != string(t.options.Shown) {
		lines = t.content("you", text.User, data.Message)
	}
	if data.Original != nil {
		lines = append(lines, label(text.Faint, "", text.Faint, "(a hook has changed the message, which was: "+
			data.Original.PlainText()+")", t.bound(brief))...)
	}
	return lines, nil
}

func (t *Transcript) output(e event.Event) ([]text.Line, error) {
	data, err := event.Decode[event.OutputMessageCompleted](e)
	if err != nil {
		return nil, err
	}
	if data.ErrorCode != "" || data.Message.ErrorCode() != "" {
		return label(text.Bad, "agent", text.Bad, data.Message.PlainText(), t.bound(long)), nil
	}
	var lines []text.Line
	for _, part := range data.Message.Content {
		if r := part.Reasoning; r != nil && r.Summary != "" {
			lines = append(lines, label(text.Faint, "thinking", text.Faint, r.Summary, t.bound(brief))...)
		}
	}
	if data.Message.ID == "" || data.Message.ID != t.shown {
		lines = append(lines, t.content("agent", text.Good, data.Message)...)
	}
	for _, call := range data.Message.ToolCalls {
		lines = append(lines, label(text.Notice, "call", text.Plain,
			call.ID+"  "+call.Name+" "+call.Arguments, t.bound(brief))...)
	}
	return lines, nil
}

// content returns the texts and the images of a message.
func (t *Transcript) content(name string, style text.Style, m event.Message) []text.Line {
	var lines []text.Line
	if words := m.PlainText(); words != "" {
		lines = label(style, name, text.Plain, words, t.bound(long))
	}
	for _, image := range m.Images() {
		lines = append(lines, label(style, name, text.Faint, picture(image), brief)...)
	}
	return lines
}

// picture is an image in words.
func picture(image event.Part) string {
	switch {
	case image.URL != "":
		return "[image " + image.URL + "]"
	case image.ImageID != "" && image.MediaType == "":
		return "[image " + image.ImageID + "]"
	case image.ImageID != "":
		return fmt.Sprintf("[image %s, %s, %d bytes]", image.ImageID, image.MediaType, image.Size())
	default:
		return fmt.Sprintf("[image %s, %d bytes]", image.MediaType, image.Size())
	}
}

func (t *Transcript) rateLimited(e event.Event) ([]text.Line, error) {
	data, err := event.Decode[event.ToolRateLimited](e)
	if err != nil {
		return nil, err
	}
	lines := label(text.Bad, "rate limit", text.Faint, data.ToolCallID+"  "+data.ToolName, brief)
	return append(lines, label(text.Plain, "", text.Plain, data.Error, t.bound(brief))...), nil
}

func (t *Transcript) toolCompleted(e event.Event) ([]text.Line, error) {
	data, err := event.Decode[event.ToolCompleted](e)
	if err != nil {
		return nil, err
	}
	t.totals.tools++
	name, style := "result", text.Notice
	if !data.Success {
		name, style = data.Status, text.Bad
	}
	head := data.ToolCallID + "  " + data.ToolName
	if data.DurationMS != nil {
		head += "  " + duration(*data.DurationMS)
	}
	lines := label(style, name, text.Faint, head, brief)
	result := event.Message{Content: data.Result}
	for _, body := range []string{result.PlainText(), data.Error} {
		if body != "" {
			lines = append(lines, label(text.Plain, "", text.Plain, body, t.bound(brief))...)
		}
	}
	for _, image := range result.Images() {
		lines = append(lines, label(text.Plain, "", text.Faint, picture(image), brief)...)
	}
	for _, h := range data.Hooks {
		lines = append(lines, label(text.Plain, "", text.Faint,
			fmt.Sprintf("hook %s: %s %s", h.Hook, h.Decision, h.Reason), brief)...)
	}
	return lines, nil
}

// generation adds a model call to the totals. Only one that has failed is shown.
func (t *Transcript) generation(e event.Event) ([]text.Line, error) {
	data, err := event.Decode[event.LLMGeneration](e)
	if err != nil {
		return nil, err
	}
	t.totals.calls++
	if data.Usage != nil {
		t.totals.tokens += data.Usage.TotalTokens
	}
	if data.Cost != nil {
		t.totals.cost, _ = cost.Add(t.totals.cost, *data.Cost)
	} else if data.Success {
		t.totals.unpriced++
	}
	if data.Success {
		return nil, nil
	}
	return label(text.Bad, "model", text.Plain, fmt.Sprintf("%s failed: %s", data.Model, data.Error), t.bound(brief)), nil
}

func repaired(e event.Event) ([]text.Line, error) {
	if e.Type == event.TypeReasonRecovered {
		data, err := event.Decode[event.ReasonRecovered](e)
		if err != nil {
			return nil, err
		}
		note := "the manager ended during the response; the model was called again"
		if data.Mode == event.RecoveredFinalize {
			note = "the manager ended during the response; what had arrived is the response"
		}
		return label(text.Faint, "note", text.Faint, note, brief), nil
	}
	data, err := event.Decode[event.TranscriptRepaired](e)
	if err != nil {
		return nil, err
	}
	return label(text.Faint, "note", text.Faint,
		fmt.Sprintf("call %s %s had no result in the conversation: %s", data.ToolCallID, data.ToolName, data.Action),
		brief), nil
}

// compacted shows that the conversation was compacted, and what stands for the messages that were left out.
func compacted(e event.Event) ([]text.Line, error) {
	data, err := event.Decode[event.ContextCompacted](e)
	if err != nil {
		return nil, err
	}
	note := fmt.Sprintf("the conversation was compacted (%s) to %d messages, about %d tokens", data.Mode,
		data.MessageCount, data.Tokens)
	if data.Error != "" {
		note += "; no model has written a summary: " + data.Error
	}
	lines := label(text.Notice, "compact", text.Faint, note, brief)
	if data.Summary != "" {
		lines = append(lines, label(text.Plain, "", text.Faint, data.Summary, brief)...)
	}
	return lines, nil
}

func subAgent(e event.Event) ([]text.Line, error) {
	data, err := event.Decode[event.SubAgent](e)
	if err != nil {
		return nil, err
	}
	verb := strings.TrimPrefix(e.Type, "subagent.")
	return label(text.Notice, "sub-agent", text.Plain,
		fmt.Sprintf("%s  %s %s as Session %s", data.ToolCallID, data.ToolName, verb, data.Session), brief), nil
}

func (t *Transcript) completed(e event.Event) ([]text.Line, error) {
	data, err := event.Decode[event.TurnCompleted](e)
	if err != nil {
		return nil, err
	}
	reason := StopReason(data.StopReason)
	style := text.Good
	if reason != "" {
		style = text.Notice
	}
	word := "done"
	if reason != "" {
		word = reason
	}
	return []text.Line{t.ending(style, word, e.Time.Time)}, nil
}

// StopReason explains why a response is not whole; empty if it is.
func StopReason(wire string) string {
	switch wire {
	case "max_tokens":
		return "cut off: the model reached its output limit"
	case "max_turn_requests":
		return "stopped: the Turn reached its limit of model calls"
	case "refusal":
		return "the model refused"
	default:
		return ""
	}
}

func (t *Transcript) failed(e event.Event) ([]text.Line, error) {
	data, err := event.Decode[event.TurnFailed](e)
	if err != nil {
		return nil, err
	}
	word := "failed"
	if data.ErrorCode != "" {
		word += " (" + data.ErrorCode + ")"
	}
	lines := []text.Line{t.ending(text.Bad, word, e.Time.Time)}
	if data.Error != "" {
		lines = append(lines, label(text.Plain, "", text.Plain, data.Error, t.bound(brief))...)
	}
	for _, name := range slices.Sorted(maps.Keys(data.ErrorFields)) {
		lines = append(lines, label(text.Plain, "", text.Faint, name+": "+data.ErrorFields[name], t.bound(brief))...)
	}
	return lines, nil
}

// ending is the last line of a Turn.
func (t *Transcript) ending(style text.Style, word string, at time.Time) text.Line {
	rest := []string{count(t.totals.calls, "model call")}
	if t.totals.tools > 0 {
		rest = append(rest, count(t.totals.tools, "tool call"))
	}
	rest = append(rest, fmt.Sprintf("%d tokens", t.totals.tokens))
	for _, c := range t.totals.cost {
		rest = append(rest, c.Amount+" "+c.Currency)
	}
	if t.totals.unpriced > 0 && len(t.totals.cost) > 0 {
		rest = append(rest, fmt.Sprintf("%d without a price", t.totals.unpriced))
	}
	if !t.totals.started.IsZero() && at.After(t.totals.started) {
		rest = append(rest, duration(at.Sub(t.totals.started).Milliseconds()))
	}
	return text.Line{{Style: style, Text: "── " + word}, {Style: text.Faint, Text: "  " + strings.Join(rest, " · ")}}
}

func (t *Transcript) bound(b text.Bound) text.Bound {
	if t.options.Full {
		return text.Bound{}
	}
	return b
}

func label(style text.Style, name string, body text.Style, content string, bound text.Bound) []text.Line {
	return text.Block(text.Span{Style: style, Text: name}, labels, body, content, bound)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func duration(milliseconds int64) string {
	d := time.Duration(milliseconds) * time.Millisecond
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// Progress returns what a tool reports about a call.
func Progress(p event.ToolProgress) string {
	words := p.ToolCallID + "  " + p.ToolName + "  "
	if p.Total > 0 {
		words += fmt.Sprintf("%.0f%%", 100*p.Progress/p.Total)
	} else {
		words += strconv.FormatFloat(p.Progress, 'g', 6, 64)
	}
	if p.Message != "" {
		shown := p.Message
		if len(shown) > maxProgress {
			shown = excerpt.Head(shown, maxProgress)
		}
		words += "  " + shown
	}
	return words
}

// maxProgress bounds the message of a tool in the line of its progress.
const maxProgress = 200
