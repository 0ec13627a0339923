package plan

import (
	"maps"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestWithChangesACopy(t *testing.T) {
	first := Failure{Code: v1alpha1.ErrorCodeCancelled}.With("a", "1")
	second := first.With("a", "2").With("b", "3")
	if !maps.Equal(first.Fields, map[string]string{"a": "1"}) ||
		!maps.Equal(second.Fields, map[string]string{"a": "2", "b": "3"}) || second.Code != first.Code {
		t.Errorf("the failures are %+v and %+v", first, second)
	}
}

func TestSentence(t *testing.T) {
	other := Failure{Code: v1alpha1.ErrorCodeProcessingError}
	refused := other.With(v1alpha1.ErrorFieldProblem, "no such parameter")
	seen := map[string]v1alpha1.ErrorCode{other.Sentence(): other.Code}
	if refused.Sentence() == other.Sentence() || refused.Sentence() == "" {
		t.Errorf("the sentences are %q and %q", refused.Sentence(), other.Sentence())
	}
	for code := range sentences {
		sentence := Failure{Code: code}.Sentence()
		if same, ok := seen[sentence]; ok || sentence == "" {
			t.Errorf("the sentence of %s is %q, that of %q", code, sentence, same)
		}
		seen[sentence] = code
		if with := (Failure{Code: code}).With(v1alpha1.ErrorFieldProblem, "x").Sentence(); with != sentence {
			t.Errorf("with a problem, the sentence of %s is %q", code, with)
		}
	}
}

func TestOnlyASentenceIsOne(t *testing.T) {
	failures := []Failure{
		{Code: v1alpha1.ErrorCodeProcessingError},
		Failure{Code: v1alpha1.ErrorCodeProcessingError}.With(v1alpha1.ErrorFieldProblem, "no such parameter"),
	}
	for code := range sentences {
		failures = append(failures, Failure{Code: code})
	}
	for _, f := range failures {
		sentence := f.Sentence()
		if !IsSentence(sentence) {
			t.Errorf("%q is not known as a sentence", sentence)
		}
		for _, longer := range []string{"He said: " + sentence, sentence + " What now?"} {
			if IsSentence(longer) {
				t.Errorf("%q counts as a sentence", longer)
			}
		}
	}
	if IsSentence("") {
		t.Error("an empty text counts as a sentence")
	}
}
