package httpcall

import (
	"net/http"

	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// HeaderConnectionRequired names the provider that a tool needs a connection to, in a response with status 401, 403 or
// 424 (Failed Dependency). Unlike its body, the headers of a response are never a text that the tool has read
// elsewhere.
const HeaderConnectionRequired = "Capstan-Connection-Required"

// Connection is the provider that a tool reports to need a connection to; empty for none. A name with the value of a
// secret of the request, or of hidden, is not one: it would be shown.
func Connection(answer *egress.Response, request egress.Request, hidden ...string) string {
	switch answer.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusFailedDependency:
	default:
		return ""
	}
	names := answer.Header.Values(HeaderConnectionRequired)
	if len(names) != 1 || !tool.ValidProvider(names[0]) ||
		credential.RedactText(names[0], credential.Hiding(request.Secret, hidden...)) != names[0] {
		return ""
	}
	return names[0]
}
