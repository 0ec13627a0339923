package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

const (
	// maxObjects is the most objects of a list, and defaultObjects how many without a limit.
	maxObjects, defaultObjects = 100, 50
	// maxTextBytes is the most of a text in an object that is returned whole, and maxObjectBytes the most of the object.
	maxTextBytes, maxObjectBytes = 8 << 10, 48 << 10
	// shortTextBytes is the most of a text in an object that is larger.
	shortTextBytes = 256
	// maxContinueBytes bounds the mark of the next page.
	maxContinueBytes = 4 << 10
)

// metadata is what the program reads and writes of the metadata of an object.
type metadata struct {
	Name        string            `json:"name,omitempty"`
	UID         string            `json:"uid,omitempty"`
	Created     string            `json:"creationTimestamp,omitempty"`
	Version     string            `json:"resourceVersion,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// object is an object of any kind.
type object struct {
	APIVersion string         `json:"apiVersion,omitempty"`
	Kind       string         `json:"kind,omitempty"`
	Metadata   metadata       `json:"metadata"`
	Spec       map[string]any `json:"spec,omitempty"`
	Status     map[string]any `json:"status,omitempty"`
}

// table is a page of a list, as kubectl shows it.
type table struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Columns []struct {
		Name     string `json:"name"`
		Priority int    `json:"priority"`
	} `json:"columnDefinitions"`
	Rows []row `json:"rows"`
}

type row struct {
	Cells  []any  `json:"cells"`
	Object object `json:"object"`
}

// column returns the index of a column; -1 for none.
func (t *table) column(name string) int {
	for i, column := range t.Columns {
		if column.Name == name {
			return i
		}
	}
	return -1
}

func (r *row) cell(i int) string {
	if i < 0 || i >= len(r.Cells) {
		return ""
	}
	text, _ := r.Cells[i].(string)
	return text
}

// list returns a page of the objects of a kind, as kubectl shows them.
func list(ctx context.Context, c *call) (any, error) {
	k, known := kinds[c.Kind]
	if !known {
		return nil, errors.New("kind must be harness, agent or session")
	}
	most := defaultObjects
	if c.Limit > 0 {
		most = min(c.Limit, maxObjects)
	}
	query := url.Values{"includeObject": {"Metadata"}}
	if len(c.Continue) > maxContinueBytes {
		return nil, errors.New("continue is not that of an earlier result")
	}
	if c.Continue != "" {
		query.Set("continue", c.Continue)
	}
	if k == sessions && !c.Archived {
		query.Set("labelSelector", "!"+LabelArchived)
	}
	page, _, err := c.page(ctx, k, query, most)
	if err != nil {
		return nil, err
	}
	items := []map[string]any{}
	lifecycle := page.column("Lifecycle")
	for _, r := range page.Rows {
		if r.cell(lifecycle) == "Archived" && !c.Archived {
			continue
		}
		item := map[string]any{}
		for i, column := range page.Columns {
			if column.Priority == 0 && i < len(r.Cells) && r.Cells[i] != nil && r.Cells[i] != "" {
				item[column.Name] = r.Cells[i]
			}
		}
		if r.Object.Metadata.Labels[LabelArchived] != "" {
			item["Lifecycle"] = "Archived"
		}
		items = append(items, item)
	}
	result := map[string]any{"items": items}
	if page.Metadata.Continue != "" {
		result["continue"] = page.Metadata.Continue
	}
	return result, nil
}

// page returns a page of a list of at most so many objects. Their metadata may be large, such as annotations of 256
// KiB: a page that is too large is asked for again with half of them. It returns the number that it has asked for last.
func (a *api) page(ctx context.Context, k kind, query url.Values, most int) (*table, int, error) {
	for {
		query.Set("limit", strconv.Itoa(most))
		page := &table{}
		err := a.do(ctx, request{method: http.MethodGet, kind: k, query: query, accept: asTable}, page)
		if !errors.Is(err, errTooLarge) || most <= 1 {
			return page, most, err
		}
		most /= 2
	}
}

// get returns an object with its spec and its status.
func get(ctx context.Context, c *call) (any, error) {
	k, err := c.named()
	if err != nil {
		return nil, err
	}
	var o object
	if err := c.do(ctx, request{method: http.MethodGet, kind: k, name: c.Name}, &o); err != nil {
		return nil, err
	}
	o.Metadata.Annotations = nil
	shown := func(most int) map[string]any {
		return map[string]any{
			"kind": c.Kind, "name": o.Metadata.Name, "archived": o.archived(), "created": o.Metadata.Created,
			"spec": shortened(o.Spec, most), "status": shortened(o.Status, most),
		}
	}
	for _, most := range []int{maxTextBytes, shortTextBytes} {
		if raw, err := encode(shown(most)); err == nil && len(raw) <= maxObjectBytes {
			return json.RawMessage(raw), nil
		}
	}
	// It has many short texts: the beginning of its JSON as text.
	cut := shown(shortTextBytes)
	for _, part := range []string{"spec", "status"} {
		raw, err := encode(cut[part])
		if err != nil {
			return nil, err
		}
		cut[part] = encodedHead(string(raw), maxObjectBytes/3)
	}
	return cut, nil
}

// archived reports whether an object is archived.
func (o *object) archived() bool {
	return o.Metadata.Labels[LabelArchived] != "" || o.Spec["lifecycle"] == "Archived"
}

// shortened returns a value with its texts cut.
func shortened(value any, most int) any {
	switch v := value.(type) {
	case string:
		if len(v) <= most {
			return v
		}
		return head(v, most) + fmt.Sprintf(" (%d more bytes)", len(v)-most)
	case []any:
		cut := make([]any, len(v))
		for i := range v {
			cut[i] = shortened(v[i], most)
		}
		return cut
	case map[string]any:
		cut := make(map[string]any, len(v))
		for key := range v {
			cut[key] = shortened(v[key], most)
		}
		return cut
	default:
		return value
	}
}

// create creates an object under a name that follows from the call.
func create(ctx context.Context, c *call) (any, error) {
	k, known := kinds[c.Kind]
	if !known {
		return nil, errors.New("kind must be harness, agent or session")
	}
	spec, err := c.spec()
	if err != nil {
		return nil, err
	}
	name := nameOf(c.Kind, c.id)
	o := object{Metadata: metadata{Name: name, Annotations: c.marks()}, Spec: spec}
	if err := c.createOnce(ctx, k, o); err != nil {
		return nil, err
	}
	return map[string]any{"kind": c.Kind, "name": name}, nil
}

// spec returns the spec in the arguments.
func (c *call) spec() (map[string]any, error) {
	var spec map[string]any
	if err := json.Unmarshal(c.Spec, &spec); err != nil || spec == nil {
		return nil, errors.New("spec must be an object")
	}
	return spec, nil
}

// marks are the annotations of an object that the call creates.
func (c *call) marks() map[string]string {
	return map[string]string{AnnotationCall: c.id, AnnotationSession: c.session}
}

// createOnce creates an object, unless an earlier run or attempt of the call has done so.
func (c *call) createOnce(ctx context.Context, k kind, o object) error {
	o.APIVersion, o.Kind = "capstan.dev/v1alpha1", k.name
	err := c.do(ctx, request{method: http.MethodPost, kind: k, query: strict(), body: o}, nil)
	exists := has(err, http.StatusConflict)
	if err == nil || !exists && !mayBeDone(err) {
		return err
	}
	var there object
	read := c.do(ctx, request{method: http.MethodGet, kind: k, name: o.Metadata.Name}, &there)
	switch {
	case read == nil && c.made(k, o, there):
		return nil
	case read == nil && exists, has(read, http.StatusNotFound) && answered(err):
		return err
	case mayBeDone(err) && read != nil:
		return fmt.Errorf("it is not known whether %s %s was created, check that before you repeat the call: %w",
			k.name, o.Metadata.Name, errors.Unwrap(err))
	case read != nil:
		return read
	default:
		return fmt.Errorf("%s %s exists, and is not what this call creates", k.name, o.Metadata.Name)
	}
}

// made reports whether an object that exists is the one that the call creates. Names and annotations can be foreseen,
// so that others may have created an object with them. A Turn has the user who has created it, by the policy
// submitted-by; of another object all that the call sets must be there.
func (c *call) made(k kind, o, there object) bool {
	if there.Metadata.Annotations[AnnotationCall] != c.id {
		return false
	}
	return covers(there.Spec, o.Spec) && (k != turns || there.Spec["submittedBy"] == c.user)
}

// covers reports whether a value has all that another one sets; the API server adds defaults, and drops null.
func covers(value, part any) bool {
	switch p := part.(type) {
	case nil:
		return true
	case map[string]any:
		v, _ := value.(map[string]any)
		for key := range p {
			if !covers(v[key], p[key]) {
				return false
			}
		}
		return true
	case []any:
		v, _ := value.([]any)
		if len(v) != len(p) {
			return false
		}
		for i := range p {
			if !covers(v[i], p[i]) {
				return false
			}
		}
		return true
	default:
		return value == part
	}
}

// strict lets the API server refuse unknown fields, which it otherwise drops.
func strict() url.Values {
	return url.Values{"fieldValidation": {"Strict"}, "fieldManager": {"capstan-platform"}}
}

// update merges a spec into that of an object.
func update(ctx context.Context, c *call) (any, error) {
	k, err := c.named()
	if err != nil {
		return nil, err
	}
	spec, err := c.spec()
	if err != nil {
		return nil, err
	}
	return c.patch(ctx, k, map[string]any{"spec": spec}, "change it")
}

// archive archives an object, or restores it. A Harness and an Agent have a lifecycle for it; a Session is labelled.
func archive(ctx context.Context, c *call) (any, error) {
	k, err := c.named()
	if err != nil {
		return nil, err
	}
	if k != sessions {
		lifecycle := "Archived"
		if c.Restore {
			lifecycle = "Active"
		}
		return c.patch(ctx, k, map[string]any{"spec": map[string]any{"lifecycle": lifecycle}}, "archive it")
	}
	var value any = "true"
	if c.Restore {
		value = nil
	}
	labels := map[string]any{"labels": map[string]any{LabelArchived: value}}
	return c.patch(ctx, k, map[string]any{"metadata": labels}, "archive it")
}

// patch changes an object that is not the Session of the agent.
func (c *call) patch(ctx context.Context, k kind, change map[string]any, what string) (any, error) {
	if k == sessions {
		if err := c.other(c.Name, what); err != nil {
			return nil, err
		}
	}
	var o object
	err := c.do(ctx, request{
		method: http.MethodPatch, kind: k, name: c.Name, query: strict(), format: asMergePatch, body: change,
	}, &o)
	if err != nil {
		return nil, err
	}
	return map[string]any{"kind": c.Kind, "name": o.Metadata.Name, "archived": o.archived()}, nil
}
