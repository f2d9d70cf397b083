package cli

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"crowsnest/artifact"
	"crowsnest/cli/internal/show"
	"crowsnest/daemon/loader"
	"crowsnest/internal/text"
)

// registryTimeout bounds a command that uses a registry.
const registryTimeout = 2 * time.Minute

// registryFlags are the flags of the commands that use a registry.
type registryFlags struct {
	plainHTTP  bool
	key        string
	minVersion string
}

func (f *registryFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.plainHTTP, "plain-http", false, "connect to the registry without TLS")
}

// addPolicy adds the flags that say which artifacts to accept.
func (f *registryFlags) addPolicy(cmd *cobra.Command) {
	f.add(cmd)
	cmd.Flags().StringVar(&f.key, "key", "", "public keys of the publisher: a `FILE` in PEM form, such as cosign.pub")
	cmd.Flags().StringVar(&f.minVersion, "min-version", "", "refuse a `VERSION` that is older")
}

// open returns a client for the artifact. It does not connect yet.
func (f *registryFlags) open(c *cli, reference string) (*artifact.Remote, error) {
	ref, err := artifact.ParseReference(reference)
	if err != nil {
		return nil, usageErrorf("%w", err)
	}
	return artifact.Open(ref, artifact.Options{
		PlainHTTP: f.plainHTTP, Username: c.getenv("CROWSNEST_REGISTRY_USERNAME"), Password: c.getenv("CROWSNEST_REGISTRY_PASSWORD"),
	})
}

// policy returns which artifacts the flags accept.
func (f *registryFlags) policy(r *artifact.Remote) (artifact.Policy, error) {
	p := artifact.Policy{Digest: r.Digest(), MinVersion: f.minVersion}
	if f.key == "" && p.Digest == "" {
		return p, usageErrorf("name the publisher's public key with --key, or the digest in the reference (%s@sha256:...)", r.Repository())
	}
	if f.key == "" {
		return p, nil
	}
	data, err := os.ReadFile(f.key)
	if err == nil {
		p.Keys, err = artifact.PublicKeys(data)
	}
	if err != nil {
		return p, fmt.Errorf("--key %s: %w", f.key, err)
	}
	return p, nil
}

func newRulesPush(c *cli) *cobra.Command {
	var f registryFlags
	var key, title, expires string
	var tags []string
	cmd := &cobra.Command{
		Use:   "push [flags] FOLDER REGISTRY/REPOSITORY:VERSION",
		Short: "Publish a folder of rule packs in an OCI registry",
		Long: `Checks and tests the packs of a folder, publishes them as an OCI artifact, and
prints its digest. The tag is the version, a semantic one such as 1.4.0: it is
never given to other content. The same files always have the same digest.

With --key it signs the digest in cosign's form. The key has no password; for
encrypted keys and keys in a KMS, push without --key and run
cosign sign --key KEY REFERENCE@DIGEST.

Credentials are those of docker login, or CROWSNEST_REGISTRY_USERNAME and
CROWSNEST_REGISTRY_PASSWORD.`,
		Example: `  crowsnest rules push --key packs.key packs/ registry.example.org/team/packs:1.4.0
  crowsnest rules push --key packs.key --tag stable --expires 2027-06-30 packs/ registry.example.org/team/packs:1.4.0`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			info := artifact.Info{Title: title}
			if expires != "" {
				day, err := time.Parse(time.DateOnly, expires)
				if err != nil {
					return usageErrorf("--expires %q is not a date such as 2027-06-30", expires)
				}
				if !day.After(time.Now()) {
					return usageErrorf("--expires %s is not in the future: every crowsnest would refuse the artifact", expires)
				}
				info.Expires = day
			}
			return c.push(cmd.Context(), f, args[0], args[1], publication{key, tags, info})
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&key, "key", "", "private key that signs the artifact: a `FILE` in PEM form (ECDSA P-256)")
	cmd.Flags().StringArrayVar(&tags, "tag", nil, "also give it this `TAG`, such as stable, which may move (repeatable)")
	cmd.Flags().StringVar(&title, "title", "", "`NAME` of the packs, the same in every version (default: the repository)")
	cmd.Flags().StringVar(&expires, "expires", "", "`DATE` (UTC) from which the artifact is refused, so that nobody can serve it forever")
	return cmd
}

// publication is what push adds to the packs.
type publication struct {
	keyFile string
	tags    []string
	info    artifact.Info
}

func (c *cli) push(ctx context.Context, f registryFlags, dir, reference string, p publication) error {
	info := p.info
	r, err := f.open(c, reference)
	if err != nil {
		return err
	}
	defer r.Close()
	if r.Tag() == "" {
		return usageErrorf("the reference needs a version as its tag: %s:1.4.0", r.Repository())
	}
	info.Version = r.Tag()
	if info.Title == "" {
		info.Title = r.Name()
	}
	var key *ecdsa.PrivateKey
	if p.keyFile != "" {
		data, err := os.ReadFile(p.keyFile)
		if err == nil {
			key, err = artifact.PrivateKey(data)
		}
		if err != nil {
			return fmt.Errorf("--key %s: %w", p.keyFile, err)
		}
	}
	files, err := artifact.ReadFolder(dir)
	if err != nil {
		return err
	}
	a, err := artifact.New(files, info)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if _, err := loader.Check(a.Files); err != nil {
		return fmt.Errorf("%s is not published:\n%w", dir, err)
	}
	ctx, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	if err := r.Push(ctx, a); err != nil {
		return fmt.Errorf("push: %w", err)
	}
	signed := "not signed"
	if key != nil {
		if err := r.Sign(ctx, a, key); err != nil {
			return fmt.Errorf("sign: %w", err)
		}
		signed = "signed"
	}
	// Tags move last: whoever follows one must not see a version without its signature.
	if len(p.tags) > 0 {
		if err := r.Push(ctx, a, p.tags...); err != nil {
			return fmt.Errorf("push: %w", err)
		}
	}
	fmt.Fprintf(c.err, "%s published as version %s of %s, %s\n", text.Plural(int64(len(a.Files)), "file"), a.Version, a.Title, signed)
	fmt.Fprintf(c.out, "%s@%s\n", r.Repository(), a.Digest)
	return nil
}

func newRulesPull(c *cli) *cobra.Command {
	var f registryFlags
	var older bool
	cmd := &cobra.Command{
		Use:   "pull [flags] REFERENCE FOLDER",
		Short: "Fetch rule packs from an OCI registry into a folder",
		Long: `Fetches an artifact, verifies it, checks and tests its packs, and then replaces
the folder: after a failure or a kill it has the previous files. The folder must
be empty, new, or written by an earlier pull.

An artifact is accepted if its digest is in the reference, or if --key verifies
its signature (by cosign or rules push, made with a key). In a folder that an
earlier pull wrote, only a newer version of the same title is accepted.

Credentials are those of docker login, or CROWSNEST_REGISTRY_USERNAME and
CROWSNEST_REGISTRY_PASSWORD.`,
		Example: `  crowsnest rules pull --key packs.pub registry.example.org/team/packs:stable /etc/crowsnest/packs
  crowsnest rules pull registry.example.org/team/packs@sha256:4f1b... /etc/crowsnest/packs`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			last, err := artifact.InFolder(args[1])
			if err != nil {
				return err
			}
			a, err := c.pull(cmd.Context(), f, args[0], func(p *artifact.Policy) { p.Last, p.AllowOlder = last, older })
			if err != nil {
				return err
			}
			if last != nil && last.Digest == a.Digest {
				fmt.Fprintf(c.err, "version %s of %s is in %s already\n", a.Version, a.Title, args[1])
				return nil
			}
			if err := artifact.Write(args[1], a); err != nil {
				return err
			}
			fmt.Fprintf(c.err, "%s of version %s of %s in %s\n", text.Plural(int64(len(a.Files)), "file"), a.Version, a.Title, args[1])
			return nil
		},
	}
	f.addPolicy(cmd)
	cmd.Flags().BoolVar(&older, "allow-older", false, "accept an older version, other content of the same version, or another title, as for a roll-back")
	return cmd
}

// pull fetches an artifact that the flags accept and whose packs are good. more may
// change the policy.
func (c *cli) pull(ctx context.Context, f registryFlags, reference string, more func(*artifact.Policy)) (*artifact.Artifact, error) {
	r, err := f.open(c, reference)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	policy, err := f.policy(r)
	if err != nil {
		return nil, err
	}
	more(&policy)
	ctx, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	a, err := r.Pull(ctx)
	if err != nil {
		return nil, fmt.Errorf("pull: %w", err)
	}
	if err := policy.Check(a, time.Now()); err != nil {
		return nil, fmt.Errorf("%s is refused: %w", reference, err)
	}
	if _, err := loader.Check(a.Files); err != nil {
		return nil, fmt.Errorf("%s is refused:\n%w", reference, err)
	}
	return a, nil
}

func newRulesVerify(c *cli) *cobra.Command {
	var f registryFlags
	output := newOneOf("text", "json")
	cmd := &cobra.Command{
		Use:   "verify [flags] REFERENCE",
		Short: "Verify rule packs in an OCI registry without writing anything",
		Long: `Fetches an artifact, verifies its digest or signature, and checks and tests its
packs, as rules pull does, and prints what it is.`,
		Example: "  crowsnest rules verify --key packs.pub registry.example.org/team/packs:stable",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := c.pull(cmd.Context(), f, args[0], func(*artifact.Policy) {})
			if err != nil {
				return err
			}
			if output.value == "json" {
				return show.JSON(c.out, struct {
					Digest string `json:"digest"`
					artifact.Info
					Files int `json:"files"`
				}{a.Digest, a.Info, len(a.Files)}, true)
			}
			w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
			fmt.Fprintf(w, "digest\t%s\ntitle\t%s\nversion\t%s\nfiles\t%d\n", a.Digest, a.Title, a.Version, len(a.Files))
			if !a.Expires.IsZero() {
				fmt.Fprintf(w, "expires\t%s\n", a.Expires.Format(time.RFC3339))
			}
			return w.Flush()
		},
	}
	f.addPolicy(cmd)
	cmd.Flags().VarP(output, "output", "o", "output format")
	return cmd
}
