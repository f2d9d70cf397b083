package logname

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKubelet(t *testing.T) {
	f := func(name string, want Order, ok bool) {
		t.Helper()
		o, got := ParseKubeletName(name)
		require.Equal(t, ok, got, name)
		require.Equal(t, want, o, name)
	}
	f("0.log", Order{}, true)
	f("12.log", Order{Instance: 12}, true)
	f("3.log.20260102-030405", Order{Instance: 3, Rotated: "20260102-030405"}, true)
	f("3.log.20260102-030405.gz", Order{Instance: 3, Rotated: "20260102-030405", GZ: true}, true)
	f("3.log.20260102-030405.tmp", Order{}, false)
	f("3.log.gz", Order{}, false)
	f("3.log.", Order{}, false)
	f("3.logx", Order{}, false)
	f(".log", Order{}, false)
	f("-1.log", Order{}, false)
	f("+1.log", Order{}, false)
	f("a.log", Order{}, false)
	f("9999999999.log", Order{}, false)
	f("", Order{}, false)
}

func TestPlainBase(t *testing.T) {
	f := func(name, base string, rotated, gz bool) {
		t.Helper()
		b, o := PlainBase(name)
		require.Equal(t, base, b, name)
		require.Equal(t, rotated, o.Rotated != "", name)
		require.Equal(t, gz, o.GZ, name)
	}
	f("app.log", "app.log", false, false)
	f("app.log.1", "app.log", true, false)
	f("app.log.12.gz", "app.log", true, true)
	f("app.log-20240131", "app.log", true, false)
	f("app.log-20240131.gz", "app.log", true, true)
	f("app.log-2024-01-31", "app.log", true, false)
	f("app.log.2024-01-31T10-00-00", "app.log", true, false)
	f("app.log.2024-01-31T10:00:00.123", "app.log", true, false)
	f("app-1.log", "app-1.log", false, false)
	f("app-2024-01-31.log", "app-2024-01-31.log", false, false)
	f("app.log.gz", "app.log.gz", false, true)
	f("messages", "messages", false, false)
	f("messages.1", "messages", true, false)
	f("1", "1", false, false)
	f(".1", ".1", false, false)
	f("", "", false, false)

	_, one := PlainBase("x.1")
	_, two := PlainBase("x.2")
	_, ten := PlainBase("x.10")
	require.True(t, ten.Before(two))
	require.True(t, two.Before(one))
	require.True(t, one.Before(Order{}))
	_, ok := OrderByBase("x.log")("x.log.1")
	require.True(t, ok)
	_, ok = OrderByBase("x.log")("x.log2")
	require.False(t, ok)
	_, ok = OrderByBase("x.log")("yx.log")
	require.False(t, ok)
}
