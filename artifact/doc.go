// Package artifact stores folders of rule packs in OCI registries: it pushes, pulls,
// signs and verifies them. It knows the form of an artifact and whom to trust, but
// does not parse packs and does not put them in force.
package artifact
