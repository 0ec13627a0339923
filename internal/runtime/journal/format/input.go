package format

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// AskedInput is what a tool asks before it continues with a call.
type AskedInput struct {
	// Round counts how often the call has asked, from 1.
	Round int32 `json:"round"`
	// Digest identifies the questions of this call.
	Digest string `json:"digest"`
	// State is the tool's own, which it gets back with the answers.
	State string `json:"state,omitempty"`
	// Requests are the questions.
	Requests []v1alpha1.ToolInputRequest `json:"requests,omitempty"`
}

// AnsweredInput is the answer to one question.
type AnsweredInput struct {
	// Round of the question.
	Round int32 `json:"round"`
	// Answer to it.
	Answer v1alpha1.InputAnswer `json:"answer"`
}

type (
	claimedCall struct {
		ID        string            `json:"id"`
		Holder    string            `json:"holder"`
		Round     int32             `json:"round,omitempty"`
		Task      string            `json:"task,omitempty"`
		TaskUntil *metav1.MicroTime `json:"taskUntil,omitempty"`
	}
	toolInput struct {
		Round    int32          `json:"round"`
		Requests []inputRequest `json:"requests,omitempty"`
	}
	askedInput struct {
		Round    int32          `json:"round"`
		Digest   string         `json:"digest"`
		State    string         `json:"state,omitempty"`
		Requests []inputRequest `json:"requests,omitempty"`
	}
	inputRequest struct {
		ID      string          `json:"id"`
		Mode    string          `json:"mode"`
		Message string          `json:"message,omitempty"`
		Schema  json.RawMessage `json:"schema,omitempty"`
		URL     string          `json:"url,omitempty"`
	}
	answeredInput struct {
		Round   int32           `json:"round"`
		ID      string          `json:"id"`
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content,omitempty"`
	}
)

func inputFrom(i *v1alpha1.ToolInput) *toolInput {
	if i == nil {
		return nil
	}
	return &toolInput{Round: i.Round, Requests: each(i.Requests, requestFrom)}
}

func (i *toolInput) input() *v1alpha1.ToolInput {
	if i == nil {
		return nil
	}
	return &v1alpha1.ToolInput{Round: i.Round, Requests: each(i.Requests, inputRequest.request)}
}

func askedFrom(a *AskedInput) *askedInput {
	if a == nil {
		return nil
	}
	return &askedInput{Round: a.Round, Digest: a.Digest, State: a.State, Requests: each(a.Requests, requestFrom)}
}

func (a *askedInput) asked() *AskedInput {
	if a == nil {
		return nil
	}
	return &AskedInput{
		Round: a.Round, Digest: a.Digest, State: a.State, Requests: each(a.Requests, inputRequest.request),
	}
}

func requestFrom(r v1alpha1.ToolInputRequest) inputRequest {
	return inputRequest{ID: r.ID, Mode: string(r.Mode), Message: r.Message, Schema: rawOf(r.RequestedSchema), URL: r.URL}
}

func (r inputRequest) request() v1alpha1.ToolInputRequest {
	return v1alpha1.ToolInputRequest{
		ID: r.ID, Mode: v1alpha1.ToolInputMode(r.Mode), Message: r.Message, RequestedSchema: jsonOf(r.Schema), URL: r.URL,
	}
}

func answeredFrom(a *AnsweredInput) *answeredInput {
	if a == nil {
		return nil
	}
	return &answeredInput{
		Round: a.Round, ID: a.Answer.ID, Action: string(a.Answer.Action), Content: rawOf(a.Answer.Content),
	}
}

func (a *answeredInput) answered() *AnsweredInput {
	if a == nil {
		return nil
	}
	return &AnsweredInput{Round: a.Round, Answer: v1alpha1.InputAnswer{
		ID: a.ID, Action: v1alpha1.InputAction(a.Action), Content: jsonOf(a.Content),
	}}
}

func rawOf(value *v1alpha1.JSON) json.RawMessage {
	if value == nil {
		return nil
	}
	return value.Raw
}

func jsonOf(raw json.RawMessage) *v1alpha1.JSON {
	if raw == nil {
		return nil
	}
	return &v1alpha1.JSON{Raw: raw}
}
