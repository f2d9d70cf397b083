package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
)

type property struct {
	name string
	*schema
}

// propertiesOf returns the keys of an object in the order of the schema, which
// is that of the Go types.
func propertiesOf(s *schema) ([]property, error) {
	d := json.NewDecoder(bytes.NewReader(s.Properties))
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("read the keys of the schema: %w", err)
	}
	var out []property
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("read the keys of the schema: %w", err)
		}
		p := property{name: fmt.Sprint(name), schema: &schema{}}
		if err := d.Decode(p.schema); err != nil {
			return nil, fmt.Errorf("read %s of the schema: %w", p.name, err)
		}
		out = append(out, p)
	}
	return out, nil
}
