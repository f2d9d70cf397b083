package redact

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/plant"
)

func kinds(t testing.TB) []plant.Kind {
	t.Helper()
	ks, err := plant.Kinds()
	require.NoError(t, err)
	return ks
}

// announced are the kinds of which none may leak.
func announced(t testing.TB) []plant.Kind {
	t.Helper()
	return slices.DeleteFunc(kinds(t), func(k plant.Kind) bool { return k.Class == plant.Prose || k.Class == plant.None })
}

// TestPlantedSecrets plants each kind many times, within the sorts of text that
// controllers write.
func TestPlantedSecrets(t *testing.T) {
	r := New(nil)
	ks := announced(t)
	names := map[string]bool{}
	rnd := rand.New(rand.NewPCG(1, 2))
	around := []string{
		"%s", "some text %s", "%s and more", "E0101 12:00:00.000000       1 main.go:12] %s", "I0101 a.go:1] \"Applied\" object=\"ns/name\" %s",
		"time=\"2026-01-01T00:00:00Z\" level=error %s pod=a", "2026-01-01T00:00:00Z stderr F %s", "\x1b[31m%s\x1b[0m", "(%s)", "err: %s\n", "a\t%s\tb",
	}
	planted := 0
	for _, k := range ks {
		names[k.Name] = true
		for range 3 {
			text, secrets := k.Fill(rnd)
			require.NotEmpty(t, secrets, k.Name)
			in := fmt.Sprintf(around[rnd.IntN(len(around))], text)
			out := r.String(in)
			planted += len(secrets)
			require.Empty(t, plant.Survives(in, out, secrets), "%s\n in: %s\nout: %s", k.Name, in, out)
			require.Contains(t, out, Mask)
			require.Equal(t, out, r.String(out), "not idempotent: %s", in)
			require.Empty(t, plant.Survives(in, Sanitise(out), secrets))
		}
	}
	require.GreaterOrEqual(t, len(names), 40)
	require.GreaterOrEqual(t, planted, 1000)
	t.Logf("%d kinds, %d planted", len(names), planted)
}

// encodings are how text gets into lines.
func encodings() []func(string) string {
	asJSON := func(s string) string {
		b, _ := json.Marshal(map[string]string{"msg": "x " + s + " y", "z": "w"})
		return string(b)
	}
	return []func(string) string{
		asJSON,
		func(s string) string { return asJSON(asJSON(s)) },
		func(s string) string {
			return `I0101 12:00:00.000000 1 a.go:1] "msg" err=` + strconv.Quote(s) + ` a="b"`
		},
		func(s string) string { return "{A:" + s + " B:x}" },
		func(s string) string { return "run `" + s + "` now" },
		func(s string) string { return "errors: [" + s + ", other]" },
	}
}

// TestPlantedPairs plants two secrets beside each other, in each encoding: the
// one must not hide the end of the other.
func TestPlantedPairs(t *testing.T) {
	r := New(nil)
	ks := announced(t)
	rnd := rand.New(rand.NewPCG(7, 9))
	for _, encode := range encodings() {
		for _, k := range ks {
			text, secrets := k.Fill(rnd)
			other := ks[rnd.IntN(len(ks))]
			second, more := other.Fill(rnd)
			separator := []string{" ", ", ", "; ", " and ", "|"}[rnd.IntN(5)]
			for _, in := range []string{encode(text), encode(text + separator + second)} {
				out := r.String(in)
				require.Empty(t, plant.Survives(in, out, append(secrets, more...)), "%s, %s\n in: %s\nout: %s", k.Name, other.Name, in, out)
				require.Equal(t, out, r.String(out), "not idempotent: %s", in)
			}
		}
	}
}

func TestKeepsOrdinaryText(t *testing.T) {
	b, err := os.ReadFile("testdata/keep.txt")
	require.NoError(t, err)
	r := New(nil)
	for line := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n"), "\n") {
		require.Equal(t, line, r.String(line))
		for _, encode := range encodings() {
			require.Equal(t, encode(line), r.String(encode(line)))
		}
	}
}

func TestString(t *testing.T) {
	r := New(nil)
	f := func(in, want string) {
		t.Helper()
		require.Equal(t, want, r.String(in))
		require.Equal(t, want, r.String(want))
	}
	f("", "")
	f(Mask, Mask)
	f("password=a", "password=<redacted>")
	f("password=hunter2 user=x", "password=<redacted> user=x")
	f(`password="hunter 2" user=x`, `password="<redacted>" user=x`)
	f(`password="a\"b c" user=x`, `password="<redacted>" user=x`)
	f(`password="a\\" user=x`, `password="<redacted>" user=x`)
	f(`{"password":"a\"b","user":"x"}`, `{"password":"<redacted>","user":"x"}`)
	f(`{"password":12345,"user":"x"}`, `{"password":<redacted>,"user":"x"}`)
	f(`msg="{\"password\":\"a\\\"b\",\"user\":\"x\"}"`, `msg="{\"password\":\"<redacted>\",\"user\":\"x\"}"`)
	f(`"{\\\"password\\\":\\\"abc\\\",\\\"user\\\":\\\"x\\\"}"`, `"{\\\"password\\\":\\\"<redacted>\\\",\\\"user\\\":\\\"x\\\"}"`)
	f("password: 'it''s' x", "password: '<redacted>' x")
	f("password='cut off", "password='<redacted>")
	f("{Password:abc User:x}", "{Password:<redacted> User:x}")
	f("{User:x Password:abc}", "{User:x Password:<redacted>}")
	f("map[password:abc user:x]", "map[password:<redacted> user:x]")
	f("map[a:b Authorization:[Bearer abcdefgh1] Host:[x]]", "map[a:b Authorization:[<redacted>] Host:[x]]")
	f("https://u:p@h/x?a=b", "https://u:<redacted>@h/x?a=b")
	f("https://h/x?token=abcdef&limit=5", "https://h/x?token=<redacted>&limit=5")
	f("Server=a;Password=p;Database=x", "Server=a;Password=<redacted>;Database=x")
	f("a,password=b,user=c", "a,password=<redacted>,user=c")
	f("kubeadm join 10.0.0.1:6443 --token abc --discovery-token-ca-cert-hash sha256:0123", "kubeadm join 10.0.0.1:6443 --token <redacted> --discovery-token-ca-cert-hash sha256:0123")
	f(`["--password","x y","--v=2"]`, `["--password","<redacted>","--v=2"]`)
	f("password=", "password=")
	f("password: \nuser: x", "password: \nuser: x")
	f("password=<redacted>hunter2", "password=<redacted>")
	f("<password>a b</password><user>x</user>", "<password><redacted></password><user>x</user>")
	f(`Secret/shop/db: data.foo: TrFwop72Yz!xQ9`, `Secret/shop/db: data.foo: <redacted>`)
	f(`Secret/shop/db: data.foo: Required value`, `Secret/shop/db: data.foo: Required value`)
	f(`<key>password</key><string>sunshine</string>`, `<key>password</key><string><redacted></string>`)
	f(`["password","sunshine"]`, `["password","<redacted>"]`)
	f(`password of bob changed to TrFwop72Yz!xQ9`, `password of bob changed to <redacted>`)
	f("--- PASS: TestFoo1 (0.1s)", "--- PASS: TestFoo1 (0.1s)")
	f("> PASS sunshine", "> PASS <redacted>")
	f("pass\u200bword=hunter2", "password=<redacted>")
	f("\x1b[36mpassword=\x1b[0mhunter2", "password=<redacted>")
	f("\x1b[36muser=\x1b[0mx", "\x1b[36muser=\x1b[0mx")
	f(strings.Repeat("a", maxInput+1), Mask)
}

func TestExtraPatterns(t *testing.T) {
	f := func(pattern, in, want string) {
		t.Helper()
		r := New([]*regexp.Regexp{regexp.MustCompile(pattern)})
		require.Equal(t, want, r.String(in))
		require.Equal(t, want, r.String(want))
	}
	f(`CUST-[0-9]+`, "order of CUST-123 and CUST-9", "order of <redacted> and <redacted>")
	f(`x*`, "ab", "ab")
	f(`[a-z]+`, "ab", Mask) // it would match the mask again and again
}

func TestFailsClosed(t *testing.T) {
	r := New([]*regexp.Regexp{nil}) // makes a pass panic
	require.Equal(t, Mask, r.String("anything"))
}

func TestPart(t *testing.T) {
	r := New(nil)
	line := "login of bob with password=hunter2 failed in ns-1"
	hidden := r.String(line)
	f := func(part, want string) {
		t.Helper()
		require.Equal(t, Text(want), r.Part(line, Text(hidden), part))
	}
	f("", "")
	f("bob", "bob")
	f("ns-1", "ns-1")
	f("ns-1/bob", "ns-1/bob")
	f("ns-1/hunter2", Mask)
	f("hunter2", Mask)
	f("password=hunter2", Mask)
	f("unter", Mask)
	require.Equal(t, Text("n/c"), r.Part(`{"x":{"namespace":"n","name":"c"}}`, `{"x":{"namespace":"n","name":"c"}}`, "n/c"))
}

func TestNoAllocationWithoutSecrets(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it empties the pools of the redactor
	r := New(nil)
	for _, line := range ordinary() {
		require.Zero(t, testing.AllocsPerRun(10, func() { r.String(line) }), line)
	}
}

func ordinary() []string {
	return []string{
		`E0101 12:00:00.000000       1 controller.go:324] "Reconciler error" err="failed to list *v1.Secret: secrets is forbidden" controller="cluster" Cluster="ns/name" reconcileID="5b3c4c2e-8f3e-4a65-9d2e-0a8d5cf6a4a1"`,
		`{"level":"error","ts":"2026-01-01T00:00:00.000Z","logger":"controller","msg":"Reconciler error","controller":"machine","Machine":{"name":"m-1","namespace":"ns"},"error":"context deadline exceeded"}`,
		`level=warning msg="Secret with the TOKEN of the Key was not found, the API key is Expired" secret=kube-system/regcred API_TOKEN_NAME=x`,
		`2026-01-01T00:00:00.000000000Z stderr F I0101 12:00:00.000000       1 leaderelection.go:257] attempting to acquire leader lease kube-system/kube-controller-manager...`,
	}
}

// hostile texts would make a scanner that looks back or forward without bound
// take quadratic time.
func hostile(n int) []string {
	var out []string
	for _, s := range []string{
		"auth=", "auth=a", "token:[word word ", "://a", "://a:b/", ":token> ", "sk-", "-u,a", "key=/", "?key=/", `auth:\"`, `auth:'`, "eyJ", "a.", "==", "secret: a ",
		"password", "\\", `"`, "'", "Bearer ", "Data{", "-----BEGIN ", "-----BEGIN PRIVATE KEY", "token: x509: ", "s.", "SK", "K10", "::", "Cookie:[", "=", ":", "@tcp(", "a:b@tcp(",
		"Authorization: ", "--user a ", "mysql -p", "/hooks/", "hc-ping.com/", "$6$", "{SHA", "re_", "pat", "ghp_", "-p ", "password is ", "token a", "a:b@c:1 ", "h:543:a:b:", "a%20b", "%", "+a", "&#34;", "YWJjZGVm", "aB3", "net use ",
		"echo a|", "UserPassword(", "AUTH ", "BEGIN ", "user:a.", "{\"password\":{", "kty d", "data:\n  a: b Secret", "map[string][]byte{", "IDENTIFIED BY ", "@//", "$2a$", "-us1", "a/@//", "value=", "password,", "token is ", "key -> ", "VALUES (", "(password)VALUES(", "(a, password) VALUES ('x', ", "TOKEN_", `"password","`, "password of a ", `s:8:"password";`, `\x22`, `value "x for -token `,
		"password|", "secret <", "<password>", "password\n", "echo a > ", `"name":"password","value":`, "\x1b]", "\x1b[", "&a=b", ",a=", "auth=,a ",
	} {
		out = append(out, strings.Repeat(s, n/len(s)))
	}
	return out
}

func TestHostileTexts(t *testing.T) {
	r := New(nil)
	for _, s := range hostile(1 << 16) {
		out := r.String(s)
		require.Equal(t, out, r.String(out), "%.40q", s)
		Sanitise(s)
	}
}

// TestWorkIsLinear: twice the hostile text takes at most 2.5 times the steps.
func TestWorkIsLinear(t *testing.T) {
	r := New(nil)
	steps := func(s string) int {
		sc := new(scanner)
		sc.start(r, s, 0)
		sc.all()
		return sc.steps + len(s)
	}
	long := hostile(1 << 17)
	for i, s := range hostile(1 << 16) {
		require.LessOrEqual(t, 2*steps(long[i]), 5*steps(s), "%.40q", s)
	}
}

func FuzzString(f *testing.F) {
	r := New(nil)
	for _, k := range announced(f) {
		text, _ := k.Fill(rand.New(rand.NewPCG(3, 4)))
		f.Add(text)
	}
	for _, s := range hostile(60) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		out := r.String(in)
		require.Equal(t, out, r.String(out))
		require.NotPanics(t, func() {
			sc := new(scanner)
			sc.start(r, in, 0)
			sc.scan()
		})
		Sanitise(in)
	})
}

// FuzzPlanted plants a secret of a kind into any text.
func FuzzPlanted(f *testing.F) {
	r := New(nil)
	ks := announced(f)
	for i := range ks {
		f.Add(uint64(i), "text before", "text after")
		if i%4 == 0 {
			f.Add(uint64(i), `{"msg":"a`, `b"}`)
			f.Add(uint64(i), "token: ", `"'[`)
		}
	}
	f.Fuzz(func(t *testing.T, n uint64, before, after string) {
		k := ks[n%uint64(len(ks))]
		text, secrets := k.Fill(rand.New(rand.NewPCG(n, n)))
		in := before + " " + text + " " + after
		out := r.String(in)
		require.Empty(t, plant.Survives(in, out, secrets), "%s\n in: %q\nout: %q", k.Name, in, out)
	})
}

func BenchmarkOrdinaryLines(b *testing.B) {
	r := New(nil)
	lines := ordinary()
	n := 0
	for _, l := range lines {
		n += len(l)
	}
	b.SetBytes(int64(n))
	b.ReportAllocs()
	for b.Loop() {
		for _, l := range lines {
			r.String(l)
		}
	}
}

func BenchmarkLineWithSecret(b *testing.B) {
	r := New(nil)
	line := ordinary()[0] + ` password="hunter2"`
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		r.String(line)
	}
}

func BenchmarkHostile(b *testing.B) {
	r := New(nil)
	for _, s := range hostile(1 << 16) {
		b.Run(fmt.Sprintf("%.12q", s), func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				r.String(s)
			}
		})
	}
}
