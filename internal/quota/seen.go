package quota

import "encoding/binary"

// FingerprintSet remembers the fingerprints of the newest lines, to recognise lines that are read again. Tenants share it, and
// infrastructure has a reserve of an additional quarter.
type FingerprintSet struct {
	Evicted int64 // number of evicted fingerprints
	group   *Group
	entries map[uint64]*Entry
	spare   *Entry // entry that was evicted last, reused for the next fingerprint
}

// NewFingerprintSet returns an empty set for at most limit fingerprints. Infrastructure has an additional quarter of
// limit.
func NewFingerprintSet(limit int, infra func(tenant string) bool) *FingerprintSet {
	s := &FingerprintSet{entries: map[uint64]*Entry{}}
	p := NewPool(ReserveQuarter(Load{InEntries: limit}), infra)
	s.group = NewGroup(nil, Ordinary, p, p.bounds[Infrastructure][InEntries], func(x *Entry, _ string) {
		s.Evicted++
		delete(s.entries, x.ID)
		s.spare = x
	})
	return s
}

// Add remembers a fingerprint as the newest one of a tenant, and reports whether it was already known. A known
// fingerprint stays charged to the tenant that added it first.
func (s *FingerprintSet) Add(id uint64, tenant string) (known bool) {
	if x := s.entries[id]; x != nil {
		x.makeNewest()
		return true
	}
	x := s.spare
	s.spare = nil
	if x == nil {
		x = &Entry{}
	}
	x.ID, s.entries[id] = id, x
	s.group.Put(x, tenant)
	s.group.EvictExcess(x)
	return false
}

// Len returns the number of fingerprints.
func (s *FingerprintSet) Len() int { return s.group.Used() }

// Reclass charges every fingerprint again. It is needed when other tenants become infrastructure.
func (s *FingerprintSet) Reclass() { s.group.Reclass(Ordinary) }

// Share is the number of saved fingerprints of a tenant.
type Share struct {
	Tenant string `json:"p,omitempty"`
	N      int    `json:"n"`
}

// Save returns all fingerprints, sorted by tenant, and for each tenant the oldest first. Each takes 8 bytes in
// little-endian order.
func (s *FingerprintSet) Save() (ids []byte, shares []Share) {
	ids = make([]byte, 0, 8*s.Len())
	for x, tenant := range s.group.entries() {
		if n := len(shares); n == 0 || shares[n-1].Tenant != tenant {
			shares = append(shares, Share{Tenant: tenant})
		}
		shares[len(shares)-1].N++
		ids = binary.LittleEndian.AppendUint64(ids, x.ID)
	}
	return ids, shares
}

// Load adds saved fingerprints. Fingerprints beyond the sum of the shares belong to no tenant.
func (s *FingerprintSet) Load(ids []byte, shares []Share) {
	for ; len(ids) >= 8; ids = ids[8:] {
		for len(shares) > 0 && shares[0].N <= 0 {
			shares = shares[1:]
		}
		tenant := ""
		if len(shares) > 0 {
			tenant = shares[0].Tenant
			shares[0].N--
		}
		s.Add(binary.LittleEndian.Uint64(ids), tenant)
	}
}
