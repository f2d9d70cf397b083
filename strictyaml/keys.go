package strictyaml

import "slices"

// Keys holds the positions of the keys of a mapping and of their values. Decode fills an
// exported struct field of this type with the tag `yaml:"-"`. The zero value belongs to
// a struct that was not decoded.
type Keys struct {
	// At is the start of the mapping, or of the scalar in its place.
	At   Pos
	list []key
	// meant are the keys that were probably meant by unknown ones.
	meant []string
	// damaged is set if any key or value has an error.
	damaged bool
	// unreadable is set if any key or value could not be decoded.
	unreadable bool
}

// key is a key of a mapping, with its position and that of its value.
type key struct {
	name       string
	key, value Pos
	broken     bool
	items      []item         // items of a list or a mapping
	index      map[string]int // indexes of the items of a mapping by name
}

// item is a member of a list (without a name) or of a mapping.
type item struct {
	name       string
	key, value Pos
}

// Has reports whether the mapping has the key.
func (k Keys) Has(name string) bool { return k.find(name) != nil }

// Missing reports whether the mapping lacks the key, and no unknown key was probably
// meant to be it.
func (k Keys) Missing(name string) bool {
	return !k.Has(name) && !slices.Contains(k.meant, name)
}

// Broken reports whether the key or its value has an error, so that the decoded value
// must not be checked.
func (k Keys) Broken(name string) bool {
	e := k.find(name)
	return e != nil && e.broken
}

// Good reports whether the mapping has the key, and its value was decoded without errors.
func (k Keys) Good(name string) bool {
	e := k.find(name)
	return e != nil && !e.broken
}

// Damaged reports whether the mapping has any error.
func (k Keys) Damaged() bool { return k.damaged }

// Unreadable reports whether the mapping has any error other than a number or a duration
// outside its bounds.
func (k Keys) Unreadable() bool { return k.unreadable }

// Key returns the position of a key, or At if the mapping lacks it.
func (k Keys) Key(name string) Pos {
	if e := k.find(name); e != nil {
		return e.key
	}
	return k.At
}

// Value returns the position of a key's value, or At if the mapping lacks it.
func (k Keys) Value(name string) Pos {
	if e := k.find(name); e != nil {
		return e.value
	}
	return k.At
}

// Item returns the position of the i-th item of a key's list, or of its value.
func (k Keys) Item(name string, i int) Pos {
	if e := k.find(name); e != nil && i >= 0 && i < len(e.items) {
		return e.items[i].value
	}
	return k.Value(name)
}

// EntryKey returns the position of a key in a key's mapping, or of its value.
func (k Keys) EntryKey(name, entry string) Pos {
	if it := k.entry(name, entry); it != nil {
		return it.key
	}
	return k.Value(name)
}

// EntryValue returns the position of a value in a key's mapping, or of the mapping.
func (k Keys) EntryValue(name, entry string) Pos {
	if it := k.entry(name, entry); it != nil {
		return it.value
	}
	return k.Value(name)
}

// Names returns the keys in the order of the file.
func (k Keys) Names() []string {
	out := make([]string, len(k.list))
	for i := range k.list {
		out[i] = k.list[i].name
	}
	return out
}

// With returns a copy of k that takes the named keys from other, so that problems of an
// inherited value name its origin.
func (k Keys) With(other Keys, names ...string) Keys {
	taken := func(e key) bool { return slices.Contains(names, e.name) }
	own := slices.DeleteFunc(slices.Clone(k.list), taken)
	theirs := slices.DeleteFunc(slices.Clone(other.list), func(e key) bool { return !taken(e) })
	k.list = append(own, theirs...)
	return k
}

func (k Keys) find(name string) *key {
	for i := range k.list {
		if k.list[i].name == name {
			return &k.list[i]
		}
	}
	return nil
}

func (k Keys) entry(name, entry string) *item {
	e := k.find(name)
	if e == nil {
		return nil
	}
	if i, ok := e.index[entry]; ok {
		return &e.items[i]
	}
	return nil
}
