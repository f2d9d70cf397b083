package strictyaml

import "slices"

// Keys holds the positions of the keys and values of a mapping. Decode fills an exported struct field of this type that
// has the tag `yaml:"-"`. The zero value means that the struct was not decoded.
type Keys struct {
	// Pos is the start of the mapping, or of the scalar that was written instead of a mapping.
	Pos  Pos
	list []key
	// meant lists the known keys that unknown keys probably mean.
	meant []string
	// damaged is set if any key or value has an error.
	damaged bool
	// unreadable is set if any key or value could not be decoded.
	unreadable bool
}

// key is a key of a mapping.
type key struct {
	name string
	entry
	broken  bool
	items   []Pos            // positions of the items if the value is a list
	entries map[string]entry // positions of the entries, by key, if the value is a mapping
}

// entry has the positions of a key and of its value.
type entry struct{ key, value Pos }

// Has reports whether the mapping has the key.
func (k Keys) Has(name string) bool { return k.findKey(name) != nil }

// Lacks reports whether the mapping lacks the key. It returns false if an unknown key probably means this key.
func (k Keys) Lacks(name string) bool {
	return !k.Has(name) && !slices.Contains(k.meant, name)
}

// HasError reports whether the key or its value has an error. Then the value must not be checked.
func (k Keys) HasError(name string) bool { return k.Has(name) && k.findKey(name).broken }

// IsDecoded reports whether the mapping has the key and its value was decoded without errors.
func (k Keys) IsDecoded(name string) bool { return k.Has(name) && !k.findKey(name).broken }

// HasAnyError reports whether the mapping has any error.
func (k Keys) HasAnyError() bool { return k.damaged }

// IsUnreadable reports whether the mapping has errors other than numbers outside their bounds.
func (k Keys) IsUnreadable() bool { return k.unreadable }

// Key returns the position of a key, or the field Pos if the mapping lacks the key.
func (k Keys) Key(name string) Pos { return k.positions(name).key }

// Value returns the position of a key's value, or the field Pos if the mapping lacks the key.
func (k Keys) Value(name string) Pos { return k.positions(name).value }

func (k Keys) positions(name string) entry {
	if e := k.findKey(name); e != nil {
		return e.entry
	}
	return entry{k.Pos, k.Pos}
}

// Item returns the position of the i-th item in the list that is the value of name. If there is no such item, it
// returns the position of the list.
func (k Keys) Item(name string, i int) Pos {
	if e := k.findKey(name); e != nil && i >= 0 && i < len(e.items) {
		return e.items[i]
	}
	return k.Value(name)
}

// EntryKey returns the position of the key entry in the mapping that is the value of name. If there is no such key, it
// returns the position of that mapping.
func (k Keys) EntryKey(name, entry string) Pos { return k.findEntry(name, entry).key }

// EntryValue returns the position of the value of the key entry in the mapping that is the value of name. If there is
// no such key, it returns the position of that mapping.
func (k Keys) EntryValue(name, entry string) Pos { return k.findEntry(name, entry).value }

// Names returns the names of the keys in the order of the file.
func (k Keys) Names() []string {
	out := make([]string, len(k.list))
	for i := range k.list {
		out[i] = k.list[i].name
	}
	return out
}

// WithKeys returns a copy of k in which the named keys are taken from other. A problem of an inherited value then has
// the position where that value was written.
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

func (k Keys) findEntry(name, member string) entry {
	if e := k.findKey(name); e != nil {
		if found, ok := e.entries[member]; ok {
			return found
		}
	}
	return entry{k.Value(name), k.Value(name)}
}
