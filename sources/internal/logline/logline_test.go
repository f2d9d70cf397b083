package logline

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFormat(t *testing.T) {
	require.Equal(t, `msg="m" a=b c="" d="x y" e="\"" f="a=b" g="é" h="<" i="a," j="b;" k=a,b`,
		Format("m", "a", "b", "c", "", "d", "x y", "e", `"`, "f", "a=b", "g", "é", "h", "<", "i", "a,", "j", "b;", "k", "a,b"))
	require.Equal(t, `msg="lease is held" holder="a\" msg=\"lease is stale\"\nb"`, Format("lease is held", "holder", "a\" msg=\"lease is stale\"\nb"))
}
