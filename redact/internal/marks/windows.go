package marks

const (
	// Width is how many neighbouring bytes a pattern describes.
	Width   = 8
	groups  = 3
	buckets = 8 * groups
)

// Set is a set of codes, by bit.
type Set uint64

// Any is the set of all codes.
const Any = ^Set(0)

// Pattern has a set for each of a few neighbouring bytes.
type Pattern [Width]Set

// Windows find the places that match one of many patterns, and some others: each pattern is in
// one of 24 buckets, and a place is found if, for each of its neighbours, the bucket has a
// pattern with its code there. They are immutable.
type Windows struct {
	tables [groups][Width][block]uint8 // the buckets that have a code
	before int
}

// WindowsOf returns windows with the tables of others, whose size is TablesSize.
func WindowsOf(tables string, before int) *Windows {
	w := &Windows{before: before}
	for i := range len(tables) {
		w.tables[i/(Width*block)][i/block%Width][i%block] = tables[i]
	}
	return w
}

// TablesSize is the size of the tables of windows, in bytes.
const TablesSize = groups * Width * block

// Tables returns the tables in a form for WindowsOf.
func (w *Windows) Tables() string {
	b := make([]byte, 0, TablesSize)
	for g := range w.tables {
		for j := range w.tables[g] {
			b = append(b, w.tables[g][j][:]...)
		}
	}
	return string(b)
}

// Find returns the places that the windows mark, as bits, by block. list selects one of two
// lists: the result is valid until Find is called with the same, or Read.
func (t *Text) Find(w *Windows, list int) []uint64 {
	blocks := t.blocks()
	if blocks == 0 {
		return nil
	}
	look(w, &t.codes[block-w.before], blocks, &t.places[list][0])
	return t.places[list][:blocks]
}
