package versions

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules/internal/expr"
)

func TestCheckVersions(t *testing.T) {
	f := func(s string) {
		t.Helper()
		require.NoError(t, Check(s), s)
	}
	f(">=1.9.0 <1.10.0")
	f("<0.22.6")
	f("1.32.0")
	f("v1.32.0")
	f("=1.32.0")
	f(">=1.9.0 <1.9.5 || >=1.10.0 <1.10.2")
	f(">= 1.9.0, < 1.10.0")
	f(">=1.9 <1.10")
	f("~1.9.0")
	f("^1.9.0")
	f("1.9.0 || 1.9.1")
	f("!=1.9.3 >=1.9.0 <2.0.0")
	f("<1.10.0-rc.0")
	f("<=1.28.8+rke2r1")
	f(">=1.9.0 <=1.9.0")
	f("<1.0.0  ")
}

func TestCheckVersionsErrors(t *testing.T) {
	f := func(s string, offset int, message, fix string) {
		t.Helper()
		var se *expr.SyntaxError
		require.ErrorAs(t, Check(s), &se, s)
		require.Contains(t, se.Message, message, s)
		require.Contains(t, se.Fix, fix, s)
		require.Equal(t, offset, se.Offset, s)
	}
	f("", 0, "empty", ">=1.9.0")
	f(" ", 0, "empty", "")
	f("1.10", 0, "not an exact version", `write ">=1.10.0 <1.11.0" for all of 1.10, or "1.10.0" for one`)
	f("=1.10", 0, "not an exact version", `">=1.10.0 <1.11.0"`)
	f("1", 0, "not an exact version", `">=1.0.0 <2.0.0" for all of 1, or "1.0.0" for one`)
	f("1.9.x", 0, "neither a comparator nor", `">=1.9.0 <1.10.0"`)
	f("1.x", 0, "neither a comparator nor", `">=1.0.0 <2.0.0"`)
	f("<=1.10", 0, "ambiguous", "<=1.10.0")
	f(">=1.9.0 >1.10", 8, "ambiguous", ">1.10.0")
	f("*", 0, "not a version", ">=1.9.0")
	f("latest", 0, "not a version", ">=1.9.0")
	f(">=1.9.0 <", 8, "not a version", "")
	f("<< 1.9.0", 0, "not a version", "")
	f("==1.9.0", 0, "not a version", "")
	f("1.9.0 - 1.9.5", 6, "not a version", "")
	f(">=1.9.0 and <1.10.0", 8, "not a version", "")
	f("1.09.0", 0, "not a version", "leading zeros")
	f("1.9.0.1", 0, "not a version", "")
	f("<1.9.0 ||", 9, "nothing on one side", "||")
	f("|| <1.9.0", 0, "nothing on one side", "||")
	f("<1.0.0 || >=1.10.0 <1.9.0", 9, "no version satisfies", ">=")
	f(">1.9.0 <=1.9.0", 0, "no version satisfies", "")
}

func capi() AffectedVersions {
	return AffectedVersions{
		Component: "cluster-api", Image: "cluster-api/cluster-api-controller",
		Versions: ">=1.9.0 <1.10.0", FixedIn: "1.10.0", Ref: "cluster-api@641f663156",
	}
}

func TestJudge(t *testing.T) {
	f := func(tag, want string) {
		t.Helper()
		image := "registry.example:5000/cluster-api/cluster-api-controller" + tag
		v := Judge([]AffectedVersions{capi()}, image)
		require.Equal(t, want, v.Affected, "%s: %s", tag, v.Text)
		require.Equal(t, "cluster-api", v.Component)
		require.Equal(t, "1.10.0", v.FixedIn)
		require.Equal(t, "cluster-api@641f663156", v.Ref)
		require.Contains(t, v.Text, ">=1.9.0 <1.10.0")
		require.Equal(t, want != unknown, v.RunningTag != "", tag)
	}
	f(":v1.9.5", yes)
	f(":1.9.5", yes)
	f(":V1.9.0", yes)
	f(":v1.8.99", no)
	f(":v1.10.0", no)
	f(":v1.100.0", no)
	f(":v1.9.5@sha256:0123456789abcdef", yes)
	f(":v1.10.0-rc.0", yes)
	f(":v1.10.0-rc1", yes)
	f(":v1.10.0-beta.2-rke2r1", yes)
	f(":v1.10.0-ALPHA", yes)
	f(":v1.9.0-rc.0", no)
	f(":v1.10.0-rke2r1", no)
	f(":v1.9.5-rke2r1", yes)
	f(":v1.9.5-k3s1", yes)
	f(":v1.9.5+k3s1", yes)
	f(":v1.10.0+rke2r1", no)
	f(":v1.10.0-rc.1+rke2r1", yes)
	f(":v1.10.0-k3s1@sha256:0123456789abcdef", no)
	f(":latest@sha256:0123456789abcdef", unknown)
	f(":v1.10.0-eks-1", no)
	f(":v1.10.0-eks-1-29-8", no)
	f(":v1.10.0_vmware.1", no)
	f(":v1.10.0-gke.1200", no)
	f(":v1.10.0-build20240315", no)
	f(":1.10.0-debian-12-r5", no)
	f(":1.10.0-rancher1", no)
	f(":1.10.0-preempt", no)
	f(":1.10.0.1", no)
	f(":v1.9.5-hotfix.1", yes)
	f(":v1.9.5-3-gabcdef0", unknown)
	f(":v1.9.5-dirty", unknown)
	f(":v1.10.0-dev", unknown)
	f(":v1.10.0-nightly.20240101", unknown)
	f(":v1.10.0-SNAPSHOT", unknown)
	f(":v1.9", unknown)
	f(":latest", unknown)
	f(":main", unknown)
	f(":release-1.9.5", unknown)
	f(":2024.1.3", unknown)
	f(":", unknown)
	f("", unknown)
	f("@sha256:0123456789abcdef", unknown)
	f(":v01.9.0", unknown)
	f(":v99999999999999999999.9.0", unknown)
}

func TestJudgeImages(t *testing.T) {
	f := func(image, affected, text string, affects ...AffectedVersions) {
		t.Helper()
		v := Judge(affects, image)
		require.Equal(t, affected, v.Affected, v.Text)
		require.Equal(t, text, v.Text)
	}
	vcluster := AffectedVersions{Component: "vcluster", Image: "loft-sh/vcluster-oss", Versions: "<0.22.6", FixedIn: "0.22.6"}
	harvester := AffectedVersions{Component: "harvester", Versions: ">=1.4.1 <1.4.3"}
	f("", "", "")
	f("a/b:v1", "", "")
	f("", unknown, "Affected are versions <0.22.6 of vcluster, fixed in 0.22.6; the running version is not known.", vcluster)
	f("ghcr.io/loft-sh/vcluster-oss:0.22.5", yes, "vcluster 0.22.5 is affected (versions <0.22.6), fixed in 0.22.6.", vcluster)
	f("ghcr.io/loft-sh/vcluster-oss:0.22.6", no, "vcluster 0.22.6 is not among the affected versions (<0.22.6), fixed in 0.22.6.", vcluster)
	f("docker-pullable://ghcr.io/loft-sh/vcluster-oss:0.22.6", no, "vcluster 0.22.6 is not among the affected versions (<0.22.6), fixed in 0.22.6.", vcluster)
	f("localhost:5000/loft-sh/vcluster-oss", unknown, "Affected are versions <0.22.6 of vcluster, fixed in 0.22.6; the running image has no tag.", vcluster)
	f("ghcr.io/loft-sh/vcluster-oss:latest", unknown, `Affected are versions <0.22.6 of vcluster, fixed in 0.22.6; the running image's tag "latest" is not a version.`, vcluster)
	f("[::1]:5000/loft-sh/vcluster-oss:0.22.6", no, "vcluster 0.22.6 is not among the affected versions (<0.22.6), fixed in 0.22.6.", vcluster)
	f("mirror.example:5000/ghcr.io/loft-sh/vcluster-oss:v0.22.5", yes, "vcluster v0.22.5 is affected (versions <0.22.6), fixed in 0.22.6.", vcluster)
	f("loft-sh/vcluster-oss-arm64:0.22.5", yes, "vcluster 0.22.5 is affected (versions <0.22.6), fixed in 0.22.6.", vcluster)
	f("loft-sh/vcluster-oss/init:0.22.5", yes, "vcluster 0.22.5 is affected (versions <0.22.6), fixed in 0.22.6.", vcluster)
	f("loft-sh/vcluster-oss-fork:0.22.5", unknown, `Affected are versions <0.22.6 of vcluster, fixed in 0.22.6; the running image "loft-sh/vcluster-oss-fork:0.22.5" is a different one.`, vcluster)
	f("not-loft-sh/vcluster-oss:0.22.5", unknown, `Affected are versions <0.22.6 of vcluster, fixed in 0.22.6; the running image "not-loft-sh/vcluster-oss:0.22.5" is a different one.`, vcluster)
	f("other:0.22.5", unknown, `Affected are versions <0.22.6 of vcluster, fixed in 0.22.6; the running image "other:0.22.5" is a different one.`, vcluster)
	f("sha256:0123", unknown, `Affected are versions <0.22.6 of vcluster, fixed in 0.22.6; the running image "sha256:0123" is a different one.`, vcluster)
	pro := vcluster
	pro.Image = "loft-sh/vcluster-pro"
	f("", unknown, "Affected are versions <0.22.6 of vcluster, fixed in 0.22.6; the running version is not known.", vcluster, pro)
	f("ghcr.io/loft-sh/vcluster-pro:0.22.5", yes, "vcluster 0.22.5 is affected (versions <0.22.6), fixed in 0.22.6.", vcluster, pro)
	f("other:1.4.2", unknown, `Affected are versions >=1.4.1 <1.4.3 of harvester; the running version cannot be read from an image.`, harvester)
	f("a/loft-sh/vcluster-oss:0.22.5", yes, "vcluster 0.22.5 is affected (versions <0.22.6), fixed in 0.22.6.", harvester, vcluster, capi())
	f("a/loft-sh/vcluster-oss:0.23.0", unknown,
		"vcluster 0.23.0 is not among the affected versions (<0.22.6), fixed in 0.22.6. Affected are versions >=1.4.1 <1.4.3 of harvester; the running version cannot be read from an image.", vcluster, harvester)
	f("a/b:1.0.0", unknown, "Affected are versions nonsense of b; its version constraint is invalid.", AffectedVersions{Image: "b", Versions: "nonsense"})
	f("goauthentik/server:2024.1.2", yes, "server 2024.1.2 is affected (versions <2024.1.3).", AffectedVersions{Image: "server", Versions: "<2024.1.3"})
}

func TestJudgeConstraints(t *testing.T) {
	f := func(versions, tag, want string) {
		t.Helper()
		require.NoError(t, Check(versions))
		v := Judge([]AffectedVersions{{Image: "i", Versions: versions}}, "i:"+tag)
		require.Equal(t, want, v.Affected, "%s %s", versions, tag)
	}
	f("1.32.0", "v1.32.0", yes)
	f("1.32.0", "v1.32.1", no)
	f("1.32.0", "v1.32.0-rc.1", no)
	f(">=1.9.0 <1.9.5 || >=1.10.0 <1.10.2", "v1.9.5", no)
	f(">=1.9.0 <1.9.5 || >=1.10.0 <1.10.2", "v1.10.1", yes)
	f(">= 1.9.0, < 1.10.0", "1.9.9", yes)
	f(">=1.9 <1.10", "1.10.0", no)
	f("~1.9.2", "1.9.9", yes)
	f("^1.9.2", "1.12.0", yes)
	f("<1.10.0-rc.1", "1.10.0-rc.0", yes)
	f("<1.10.0-rc.1", "1.10.0-rc.1", no)
	f("<1.10.0-rc.10", "1.10.0-rc9", yes)
}

func FuzzJudge(f *testing.F) {
	f.Add(">=1.9.0 <1.10.0", "a:5000/b:v1.9.5-rke2r1@sha256:00")
	f.Add("1.10", "b:latest")
	f.Add("<1.0.0 || ~2.0.0", "")
	f.Add("<\n", "b:1\n")
	f.Fuzz(func(t *testing.T, versions, image string) {
		err := Check(versions)
		if err != nil {
			var se *expr.SyntaxError
			require.True(t, errors.As(err, &se))
			require.True(t, se.Offset >= 0 && se.Offset <= len(versions), "%d", se.Offset)
		}
		v := Judge([]AffectedVersions{{Component: "c", Image: "b", Versions: versions}}, image)
		require.Contains(t, []string{yes, no, unknown}, v.Affected)
		require.NotEmpty(t, v.Text)
		require.Equal(t, v.Affected == unknown, v.RunningTag == "")
	})
}

// What is not known of a version is never fine, and neither is a pre-release of a release that
// was not verified.
func TestOutside(t *testing.T) {
	const yes, no, unknown = "outside", "verified", "unknown"
	f := func(constraint, tag, want string) {
		t.Helper()
		outside, known := Verified{Component: "x", Versions: constraint}.Outside(tag)
		got := map[bool]string{true: yes, false: no}[outside]
		if !known {
			require.False(t, outside)
			got = unknown
		}
		require.Equal(t, want, got, "%s in %s", tag, constraint)
	}
	f(">=1.33 <1.36", "v1.33.4+rke2r1", no)
	f(">=1.33 <1.36", "v1.35.0-rke2r1-build20251010", no)
	f(">=1.33 <1.36", "v1.36.0", yes)
	f(">=1.33 <1.36", "v1.37.1+k3s1", yes)
	f(">=1.33 <1.36", "v1.32.9", yes)
	f(">=1.33 <1.36", "v1.36.0-alpha.1", yes)
	f(">=1.33 <1.36", "1.35.0-rc.1", no)
	f(">=1.35 <1.36", "1.35.0-alpha.1", yes)
	f("1.35.0 || ~1.33", "v1.35.0", no)
	f("1.35.0 || ~1.33", "v1.34.0", yes)
	f(">=1.33 <1.36", "", unknown)
	f(">=1.33 <1.36", "latest", unknown)
	f(">=1.33 <1.36", "v1.35", unknown)
	f(">=1.33 <1.36", "sha256:0123456789abcdef", unknown)
	f(">=1.33 <1.36", "v1.35.0-12-gabcdef0", unknown)
	f(">=1.33 <1.36", "main-head", unknown)
	f(">=1.33 <1.36", "2025.10.0", unknown)
	f("nonsense", "v1.35.0", unknown)
	f(">=1.33 <1.36", strings.Repeat("9", 10000), unknown)
}

func TestBounded(t *testing.T) {
	f := func(constraint, want string) {
		t.Helper()
		err := CheckBounded(constraint)
		if want == "" {
			require.NoError(t, err, constraint)
			return
		}
		require.ErrorContains(t, err, want, constraint)
	}
	for _, ok := range []string{">=1.33 <1.36", "1.35.0", "~1.35", "^1.35", ">=1.9 <1.10 || >=1.12 <1.13", "<=1.36.0", ">=2024.1.0 <2026.1.0", "<1.36"} {
		f(ok, "")
	}
	for _, open := range []string{">=1.33", ">1.33.0", ">=1.9 <1.10 || >=1.12", "!=1.35.0"} {
		f(open, "no upper bound")
	}
	f("", "empty")
	f(">=1.36 <1.33", "no version satisfies")
}
