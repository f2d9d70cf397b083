package discover

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestComplaintReader(t *testing.T) {
	var r ComplaintReader
	read := func(line string) Complaint {
		c, ok := r.Read(line, nil)
		require.True(t, ok, line)
		return c
	}
	a := read(`E0302 10:00:00.000000       1 c.go:3] "Reconciler error" err="cannot reach 10.0.0.1 in 3s" namespace="shop" name="a" reconcileID="x1"`)
	b := read(`E0302 11:00:00.000000       1 c.go:3] "Reconciler error" err="cannot reach 10.0.0.2 in 4s" namespace="shop" name="b" reconcileID="x2"`)
	require.Equal(t, a.Key, b.Key)
	require.EqualValues(t, "shop/a", a.Object)
	require.EqualValues(t, "shop/b", b.Object)
	require.True(t, a.Urgent())
	message, err := r.Template(nil)
	require.EqualValues(t, "Reconciler error", message)
	require.EqualValues(t, "cannot reach <ip> in <dur>", err)

	block := read("E0302 10:00:00.000000       1 c.go:3] \"Reconciler error\" err=<\n\tfailed to attach the disk\n > namespace=\"shop\" name=\"a\"")
	_, err = r.Template(nil)
	require.EqualValues(t, "failed to attach the disk", err)
	require.NotEqual(t, a.Key, block.Key)

	require.True(t, func() bool { c := read("panic: the map is nil\n\ngoroutine 1 [running]:"); return c.Fatal() }())
	require.True(t, read(`E0302 10:00:00.000000       1 c.go:3] "x" err="the object has been modified"`).Passes)
	require.True(t, read(`2026-03-02 Waiting for volume pvc-1 to be healthy...`).Waits)
	require.EqualValues(t, "pods/web", read(`E0302 10:00:00.000000       1 c.go:3] cannot sync pods/web in time`).Object)
	info := read(`{"level":"info","msg":"could not update the host","host":"h1","name":"a","namespace":"b"}`)
	require.False(t, info.Urgent())
	for _, line := range []string{
		"", "\tat a.b(c.java:1)", "main.main()", `{"level":"debug","msg":"cannot x","name":"a"}`, `I0302 10:00:00.000000       1 c.go:3] "failed" err="cannot x"`,
		`I0302 10:00:00.000000       1 c.go:3] "Reconciled" name="a"`, "2026-03-02 0 errors, nothing to do",
	} {
		_, ok := r.Read(line, nil)
		require.False(t, ok, line)
	}
}

func TestSimilar(t *testing.T) {
	require.True(t, Similar("Reconciler error: failed to create the load balancer of the shop", "Reconciler error: failed to create the load balancer of the bank"))
	require.False(t, Similar("connection refused by the peer", "connection denied by the peer"))
	require.False(t, Similar("failed to attach the volume", "failed to create the network of the cluster"))
	require.True(t, Similar("<id>", "<id>"))
}
