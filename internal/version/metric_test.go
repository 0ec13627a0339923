package version

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestBuildInfoIsAMetric(t *testing.T) {
	const want = `
# HELP capstan_build_info The build of the manager, in labels. The value is always 1.
# TYPE capstan_build_info gauge
capstan_build_info{commit="abcd",go="go1.26.0",version="v1.2.3"} 1
`
	info := Info{Version: "v1.2.3", Commit: "abcd", Date: "2026-11-22T00:00:00Z", Go: "go1.26.0"}
	if err := testutil.CollectAndCompare(info.Metric(), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
