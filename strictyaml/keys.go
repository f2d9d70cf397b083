package strictyaml

import "slices"

// Keys holds the positions of the keys and values of a mapping. Decode fills an exported struct
// field of this type if its tag is `yaml:"-"`. The zero value belongs to a struct that was not
// decoded.
type Keys struct {
	// At is the start of the mapping, or of the scalar that stands in its place.
	At   Pos
	list []key
	// meant lists the keys that unknown keys probably mean.
	meant []string
	// damaged is set if any key or value has an error.
	damaged bool
	// unreadable is set if any key or value could not be decoded.
	unreadable bool
}

// key is a key of a mapping with its position and the position of its value.
type key struct {
	name       string
	key, value Pos
	broken     bool
	items      []item         // items of the value if it is a list or a mapping
	index      map[string]int // index in items of each key if the value is a mapping
}

// item is a member of a list, which has no name, or of a mapping.
type item struct {
	name       string
	key, value Pos
}

// Has reports whether the mapping has the key.
func (k Keys) Has(name string) bool { return k.findKey(name) != nil }

// Lacks reports whether the mapping lacks the key, and no unknown key probably means it.
func (k Keys) Lacks(name string) bool {
	return !k.Has(name) && !slices.Contains(k.meant, name)
}

// HasError reports whether the key or its value has an error. The decoded value must not be
// checked then.
func (k Keys) HasError(name string) bool {
	e := k.findKey(name)
	return e != nil && e.broken
}

// IsDecoded reports whether the mapping has the key and its value was decoded without errors.
func (k Keys) IsDecoded(name string) bool {
	e := k.findKey(name)
	return e != nil && !e.broken
}

// HasAnyError reports whether the mapping has any error.
func (k Keys) HasAnyError() bool { return k.damaged }

// IsUnreadable reports whether the mapping has any error other than a number or a duration
// outside its bounds.
func (k Keys) IsUnreadable() bool { return k.unreadable }

// Key returns the position of a key, or At if the mapping lacks it.
func (k Keys) Key(name string) Pos {
	if e := k.findKey(name); e != nil {
		return e.key
	}
	return k.At
}

// Value returns the position of a key's value, or At if the mapping lacks it.
func (k Keys) Value(name string) Pos {
	if e := k.findKey(name); e != nil {
		return e.value
	}
	return k.At
}

// Item returns the position of the i-th item in the list that is the value of name, or the
// position of the value if there is no such item.
func (k Keys) Item(name string, i int) Pos {
	if e := k.findKey(name); e != nil && i >= 0 && i < len(e.items) {
		return e.items[i].value
	}
	return k.Value(name)
}

// EntryKey returns the position of the key entry in the mapping that is the value of name, or
// the position of that value if there is no such key.
func (k Keys) EntryKey(name, entry string) Pos {
	if it := k.findEntry(name, entry); it != nil {
		return it.key
	}
	return k.Value(name)
}

// EntryValue returns the position of the value of entry in the mapping that is the value of
// name, or the position of that mapping if there is no such key.
func (k Keys) EntryValue(name, entry string) Pos {
	if it := k.findEntry(name, entry); it != nil {
		return it.value
	}
	return k.Value(name)
}

// Names returns the names of the keys in the order of the file.
func (k Keys) Names() []string {
	out := make([]string, len(k.list))
	for i := range k.list {
		out[i] = k.list[i].name
	}
	return out
}

// WithKeys returns a copy of k in which the named keys are taken from other. A problem of an
// inherited value then names the place where it was written.
func (k Keys) WithKeys(other Keys, names ...string) Keys {
	taken := func(e key) bool { return slices.Contains(names, e.name) }
	own := slices.DeleteFunc(slices.Clone(k.list), taken)
	theirs := slices.DeleteFunc(slices.Clone(other.list), func(e key) bool { return !taken(e) })
	k.list = append(own, theirs...)
	return k
}

func (k Keys) findKey(name string) *key {
	for i := range k.list {
		if k.list[i].name == name {
			return &k.list[i]
		}
	}
	return nil
}

func (k Keys) findEntry(name, entry string) *item {
	e := k.findKey(name)
	if e == nil {
		return nil
	}
	if i, ok := e.index[entry]; ok {
		return &e.items[i]
	}
	return nil
}
