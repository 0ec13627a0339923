package turnstate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/plan"
)

// A character may take six bytes in JSON: what is cut by its length alone makes the status three times as large.
func TestTheErrorOfATurnIsBoundedAsItIsEncoded(t *testing.T) {
	long := strings.Repeat("<", 100<<10)
	e := turnError(plan.Failure{Code: "x", Fields: map[string]string{"model_id": long}}, long)
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if most := MaxMessageBytes + maxFieldBytes + 128; len(raw) > most {
		t.Errorf("the error takes %d bytes, want at most %d", len(raw), most)
	}
}
