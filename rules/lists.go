package rules

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// sortedUnique sorts names in place and drops duplicates.
func sortedUnique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// equalSets reports whether two lists without duplicates have the same names.
func equalSets(a, b []string) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}

// flowList formats a list as in YAML.
func flowList(list []string) string { return "[" + strings.Join(list, ", ") + "]" }

// duration formats a duration as in packs.
func duration(d time.Duration) string { return model.Duration(d).String() }

func hasBreak(s string) bool { return strings.ContainsAny(s, "\r\n") }
