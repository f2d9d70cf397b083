// Package versions judges whether a running image has a failure.
package versions

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"crowsnest/internal/lazyre"
	"crowsnest/rules/internal/expr"
)

// Values of Verdict.Affected.
const (
	yes     = "yes"
	no      = "no"
	unknown = "unknown"
)

// AffectedVersions states which versions of a component have a failure. Versions is a semver constraint. If Image is
// empty, the images are not compared.
type AffectedVersions struct {
	Component string `yaml:"component" bounds:"0,4096" jsonschema_description:"Name of the component, as shown to people."`
	Image     string `yaml:"image" bounds:"0,4096" jsonschema_description:"Path components of the image's repository, such as cluster-api/cluster-api-controller, compared as whole components with the stream's label image. Without it, no image is compared."`
	Versions  string `yaml:"versions" bounds:"0,4096" jsonschema_description:"An exact version, or comparators such as \">=1.9.0 <1.10.0\", in quotes."`
	FixedIn   string `yaml:"fixed_in" bounds:"0,4096" jsonschema_description:"The first version that has the fix, in quotes."`
	Ref       string `yaml:"ref" bounds:"0,4096" jsonschema_description:"An issue, pull request or commit that describes or fixes the failure."`
}

// Verified states in which versions of a component the texts of a rule were found. Versions is a semver constraint with
// an upper bound. "<1.36" also excludes the pre-releases of 1.36.
type Verified struct {
	Component string `yaml:"component" bounds:"1,4096" strict:"required" jsonschema:"required,minLength=1" jsonschema_description:"Name of the component in the table rules/components/components.yaml."`
	Versions  string `yaml:"versions" bounds:"1,4096" strict:"required" jsonschema:"required,minLength=1" jsonschema_description:"The versions whose source code contains the rule's texts, quoted and with an upper bound, such as \">=1.33 <1.36\"."`
}

// Verdict states whether the running version is among the affected versions.
type Verdict struct {
	Affected   string // yes, no or unknown; empty if the rule lists no versions
	Component  string // component whose version decided the result
	RunningTag string // tag of the running image; empty if it is not known
	FixedIn    string // version that fixes the failure; empty if the rule does not state it
	Ref        string
	Text       string // sentences for people about all compared components
}

var (
	// comparatorText matches the text from one comparator to the next, including white space.
	comparatorText = lazyre.New(`^[=!<>~^]*[ \t\r\n]*[^ ,\t\r\n]*`)

	comparator  = lazyre.New(`(?s)^(>=|=>|<=|=<|!=|~>|=|>|<|~|\^)?\s*v?(.*)$`)
	fullVersion = lazyre.New(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
	partVersion = lazyre.New(`^(\d+)(?:\.(\d+))?$`)
	wildcard    = lazyre.New(`^(\d+)(?:\.(\d+))?\.[xX*]$`)
)

// Check returns an error if a version constraint is ambiguous. A constraint consists of exact versions and of
// comparators with versions. Spaces and commas between them mean "and", and || means "or". An error is a
// *expr.SyntaxError.
func Check(constraint string) error {
	if strings.TrimSpace(constraint) == "" {
		return expr.Errorf(0, `write it like ">=1.9.0 <1.10.0"`, "the versions are empty")
	}
	from := 0
	for _, group := range strings.Split(constraint, "||") {
		if strings.TrimSpace(group) == "" {
			return expr.Errorf(from, "remove the ||", "nothing on one side of ||")
		}
		if err := checkGroup(group, from); err != nil {
			return err
		}
		from += len(group) + 2
	}
	if _, err := semver.NewConstraint(constraint); err != nil {
		return expr.Errorf(0, `write it like ">=1.9.0 <1.10.0"`, "the version constraint is invalid: %v", err)
	}
	return nil
}

// CheckBounded is Check with one more requirement. The constraint needs an upper bound, because nobody can have
// examined versions of the future.
func CheckBounded(constraint string) error {
	if err := Check(constraint); err != nil {
		return err
	}
	cs, err := semver.NewConstraint(constraint)
	if err == nil && cs.Check(semver.New(math.MaxUint32, 0, 0, "", "")) {
		return expr.Errorf(0, `write it like ">=1.33 <1.36"`, "the versions %q have no upper bound", constraint)
	}
	return nil
}

// checkGroup checks a group of comparators, which || separates from other groups.
func checkGroup(group string, from int) error {
	bounds := versionBounds{}
	for at := 0; at < len(group); {
		if strings.IndexByte(" ,\t\r\n", group[at]) >= 0 {
			at++
			continue
		}
		text := comparatorText.FindString(group[at:])
		m := comparator.FindStringSubmatch(text)
		if err := checkComparator(m[1], m[2]); err != nil {
			err.Offset += from + at
			return err
		}
		bounds.addBound(m[1], m[2])
		at += len(text)
	}
	if bounds.isEmpty() {
		return expr.Errorf(from, "write the lower bound of the versions after >=", "no version satisfies %q", strings.TrimSpace(group))
	}
	return nil
}

func checkComparator(op, version string) *expr.SyntaxError {
	if fullVersion.MatchString(version) {
		if _, err := semver.StrictNewVersion(version); err != nil {
			return expr.Errorf(0, "write numbers without leading zeros", "%q is not a version", version)
		}
		return nil
	}
	if m := wildcard.FindStringSubmatch(version); m != nil && (op == "" || op == "=") {
		return expr.Errorf(0, "write "+rangeText(m[1], m[2]), "%q is neither a comparator nor an exact version", version)
	}
	m := partVersion.FindStringSubmatch(version)
	if m == nil {
		return expr.Errorf(0, `write it like ">=1.9.0 <1.10.0"`, "%q is not a version", op+version)
	}
	full := version + strings.Repeat(".0", 2-strings.Count(version, "."))
	switch op {
	case ">=", "=>", "<", "~", "^", "~>":
		return nil // for these operators, missing numbers mean the same as zeros
	case "", "=":
		return expr.Errorf(0, fmt.Sprintf("write %s for all of %s, or %q for one", rangeText(m[1], m[2]), version, full),
			"%q is not an exact version", version)
	}
	return expr.Errorf(0, "write all three numbers, such as "+op+full, "%q is ambiguous", op+version)
}

// rangeText returns the constraint for all versions that begin with major.minor.
func rangeText(major, minor string) string {
	v, err := semver.NewVersion(strings.TrimSuffix(major+"."+minor, "."))
	if err != nil {
		return "a range"
	}
	next := v.IncMajor()
	if minor != "" {
		next = v.IncMinor()
	}
	return fmt.Sprintf(`">=%s <%s"`, v, &next)
}

// versionBounds detects comparators that no version satisfies together, such as ">=1.10.0 <1.9.0".
type versionBounds struct {
	low, high         *semver.Version
	lowOpen, highOpen bool
}

func (b *versionBounds) addBound(op, version string) {
	v, err := semver.NewVersion(version)
	if err != nil {
		return
	}
	switch op {
	case ">", ">=", "=>":
		if b.low == nil || v.GreaterThan(b.low) {
			b.low, b.lowOpen = v, op == ">"
		}
	case "<", "<=", "=<":
		if b.high == nil || v.LessThan(b.high) {
			b.high, b.highOpen = v, op == "<"
		}
	}
}

func (b *versionBounds) isEmpty() bool {
	if b.low == nil || b.high == nil {
		return false
	}
	return b.low.GreaterThan(b.high) || b.low.Equal(b.high) && (b.lowOpen || b.highOpen)
}

// Judge compares the running image, such as "registry:5000/a/b:v1.9.5", with the affected versions. An unknown image
// has the name "". Judge does not guess. If it cannot decide, the result is unknown.
func Judge(affects []AffectedVersions, image string) Verdict {
	if len(affects) == 0 {
		return Verdict{}
	}
	image = strings.TrimSpace(image)
	repository, tag := splitImage(image)
	var judged []Verdict
	for _, a := range affects {
		if a.Image == "" || image == "" || a.isImage(repository) {
			judged = append(judged, a.judgeTag(image, tag))
		}
	}
	if len(judged) == 0 {
		for _, a := range affects {
			judged = append(judged, a.unknownVerdict("the running image "+shorten(image)+" is a different one"))
		}
	}
	return combineVerdicts(judged)
}

// archSuffix matches the suffix of a tag for images of one architecture.
var archSuffix = lazyre.New(`-(amd64|arm64|arm|ppc64le|riscv64|s390x)$`)

// isImage reports whether the path of a repository contains Image as whole path components. The registry does not
// matter.
func (a AffectedVersions) isImage(repository string) bool {
	return strings.Contains("/"+archSuffix.ReplaceAllString(repository, "")+"/", "/"+strings.Trim(a.Image, "/")+"/")
}

// Tag returns the tag of an image. known reports whether the image's repository path contains one of names as whole
// path components. The registry does not matter.
func Tag(image string, names []string) (tag string, known bool) {
	repository, tag := splitImage(strings.TrimSpace(image))
	return tag, slices.ContainsFunc(names, func(name string) bool { return AffectedVersions{Image: name}.isImage(repository) })
}

// Release returns the major and minor number of the version in a tag, or "".
func Release(tag string) string {
	v, err := tagVersion(tag)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d.%d", v.Major(), v.Minor())
}

// Outside reports whether the version in a tag was not verified. known is false if the tag contains no version, or a
// version of another numbering scheme.
func (v Verified) Outside(tag string) (outside, known bool) {
	running, err := tagVersion(tag)
	cs, invalid := semver.NewConstraint(v.Versions)
	if err != nil || invalid != nil || yearOrDate.MatchString(tag) != yearOrDate.MatchString(v.Versions) {
		return false, false
	}
	cs.IncludePrerelease = true
	// A pre-release may have the texts of the release that it precedes, so both versions must satisfy the constraint.
	core := semver.New(running.Major(), running.Minor(), running.Patch(), "", "")
	return !cs.Check(running) || !cs.Check(core), true
}

// combineVerdicts merges verdicts into one. Yes takes precedence over unknown, and unknown over no. If the result is
// yes, its text omits the other verdicts. Equal texts occur once.
func combineVerdicts(vs []Verdict) Verdict {
	out := vs[0]
	rank := map[string]int{yes: 2, unknown: 1}
	for _, v := range vs[1:] {
		if rank[v.Affected] > rank[out.Affected] {
			out = v
		}
	}
	var texts []string
	for _, v := range vs {
		if (out.Affected != yes || v.Affected == yes) && !slices.Contains(texts, v.Text) {
			texts = append(texts, v.Text)
		}
	}
	out.Text = strings.Join(texts, " ")
	return out
}

// judgeTag compares one entry with the tag of its image.
func (a AffectedVersions) judgeTag(image, tag string) Verdict {
	switch {
	case a.Image == "":
		return a.unknownVerdict("the running version cannot be read from an image")
	case image == "":
		return a.unknownVerdict("the running version is not known")
	case tag == "":
		return a.unknownVerdict("the running image has no tag")
	}
	running, err := tagVersion(tag)
	if err != nil {
		return a.unknownVerdict("the running image's tag " + shorten(tag) + " " + err.Error())
	}
	cs, err := semver.NewConstraint(a.Versions)
	if err != nil {
		return a.unknownVerdict("its version constraint is invalid")
	}
	if yearOrDate.MatchString(tag) != yearOrDate.MatchString(a.Versions) {
		return a.unknownVerdict("the running image's tag " + shorten(tag) + " uses another version scheme")
	}
	// A pre-release comes before its release, so it can still have a failure that the release fixes.
	cs.IncludePrerelease = true
	affected, format := no, "%s %s is not among the affected versions (%s)%s."
	if cs.Check(running) {
		affected, format = yes, "%s %s is affected (versions %s)%s."
	}
	return a.newVerdict(affected, tag, fmt.Sprintf(format, a.name(), tag, a.Versions, a.fix()))
}

func (a AffectedVersions) newVerdict(affected, tag, text string) Verdict {
	return Verdict{Affected: affected, Component: a.Component, RunningTag: tag, FixedIn: a.FixedIn, Ref: a.Ref, Text: text}
}

func (a AffectedVersions) unknownVerdict(why string) Verdict {
	return a.newVerdict(unknown, "", fmt.Sprintf("Affected are versions %s of %s%s; %s.", a.Versions, a.name(), a.fix(), why))
}

func (a AffectedVersions) name() string { return cmp.Or(a.Component, a.Image, "the component") }

func (a AffectedVersions) fix() string {
	s := ""
	if a.FixedIn != "" {
		s = ", fixed in " + a.FixedIn
	}
	if a.Ref != "" {
		s += ", see " + a.Ref
	}
	return s
}

// shorten quotes and truncates text that comes from outside.
func shorten(s string) string { return fmt.Sprintf("%.100q", s) }

// splitImage splits the name of an image into its repository, which includes the registry, and its tag. It drops a
// digest, because a digest does not reveal the version.
func splitImage(image string) (repository, tag string) {
	if at := strings.Index(image, "://"); at >= 0 { // removes a scheme such as docker-pullable://
		image = image[at+3:]
	}
	image, _, _ = strings.Cut(image, "@")
	slash := strings.LastIndexByte(image, '/')
	if colon := strings.LastIndexByte(image, ':'); colon > slash {
		return image[:colon], image[colon+1:]
	}
	return image, ""
}

var (
	tagPattern  = lazyre.New(`^[vV]?(\d+\.\d+\.\d+)(?:[-_.+](.*))?$`)
	preRelease  = lazyre.New(`^(?i:(alpha|beta|rc|pre|preview))[.-]?(\d*)(?:$|[-_.+])`)
	development = lazyre.New(`(?i)(?:^|[-_.+])(?:dev|devel|snapshot|nightly|canary|next|main|master|head|dirty|\d+[-.]g[0-9a-f]{7,40})(?:$|[-_.+0-9])`)
	yearOrDate  = lazyre.New(`\b\d{4,}\.`)
)

// tagVersion returns the version in a tag. A vendor's build, such as v1.28.8-rke2r1 or v1.29.1-eks-1-29-8, has the
// version from which it was built. A pre-release has its own version. A build from a commit between two versions has no
// version.
func tagVersion(tag string) (*semver.Version, error) {
	m := tagPattern.FindStringSubmatch(tag)
	if m == nil {
		return nil, errors.New("is not a version")
	}
	core, suffix := m[1], m[2]
	if development.MatchString(suffix) {
		return nil, errors.New("is a build between two versions")
	}
	if p := preRelease.FindStringSubmatch(suffix); p != nil {
		core += "-" + strings.ToLower(p[1])
		if p[2] != "" {
			core += "." + p[2]
		}
	}
	v, err := semver.StrictNewVersion(core)
	if err != nil {
		return nil, errors.New("is not a version")
	}
	return v, nil
}
