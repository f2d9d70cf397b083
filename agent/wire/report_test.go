package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A report carries complaints as they are, within a bound.
func TestComplaintsInReports(t *testing.T) {
	r := Report{Node: "n1", Instance: "i", Complaints: json.RawMessage(`{"v":1,"up_to":5}`)}
	body, _ := r.Seal()
	got, err := ReadReport(body)
	require.NoError(t, err)
	require.JSONEq(t, `{"v":1,"up_to":5}`, string(got.Complaints))

	r.Complaints = json.RawMessage(`"` + strings.Repeat("a", MaxComplaints) + `"`)
	body, _ = r.Seal()
	_, err = ReadReport(body)
	require.ErrorContains(t, err, "complaints")

	r.Complaints = nil
	body, _ = r.Seal()
	require.NotContains(t, string(body), "complaints")
}
