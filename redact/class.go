package redact

// class is a set of bytes.
type class *[256]bool

// newClass returns the class of the bytes of a list, in which a-z is a range.
func newClass(list string) class {
	set := [256]bool{}
	for i := 0; i < len(list); i++ {
		first, last := int(list[i]), int(list[i])
		if i+2 < len(list) && list[i+1] == '-' {
			last = int(list[i+2])
			i += 2
		}
		for c := first; c <= last; c++ {
			set[c] = true
		}
	}
	return &set
}

// without returns the class of all bytes that are not in a list.
func without(list string) class {
	set := *newClass(list)
	for c := range set {
		set[c] = !set[c]
	}
	return &set
}

var (
	blanks, spaces, escapes, dashes, dots, digitSet     = newClass(" \t"), newClass(" \t\n\r"), newClass(`\`), newClass("-"), newClass("."), newClass("0-9")
	letters, alnums, hexDigits, wordBytes, keyBytes     = newClass("A-Za-z"), newClass("0-9A-Za-z"), newClass("0-9A-Fa-f"), newClass("0-9A-Za-z_-"), newClass("0-9A-Za-z_.-")
	glueBytes, hostBytes, seedBytes, tagBytes, tagWord  = newClass("A-Za-z_"), newClass("0-9A-Za-z.-"), newClass("a-z +"), newClass("0-9A-Za-z_.:-"), newClass("0-9A-Za-z_!-")
	spacesAndCommas, blanksAndCommas, digitsAndBlanks   = newClass(" \t\n\r,"), newClass(" \t,"), newClass("0-9 \t")
	quotesAndEscapes, unquotedBytes, urlBytes, userInfo = newClass("\"'`\\"), without(" \t\n\r\"'`"), without(" \t\n\r\"<>\\`"), without(" \t\n\r\"'`<>,;()[]{}|=/\\")
	pathBytes                                           = newClass("0-9A-Za-z_./~-")
	capitalsAndDigits                                   = newClass("A-Z0-9")
)
