//go:build ignore

/*
 * hyperscan RULES LOG [counts]
 *
 * Counts which rule matches how many lines, with one call of Hyperscan for each
 * line. RULES has lines `id:/expression/`. What a container runtime writes before
 * a line is passed over; parts of lines are not joined. With `counts` it prints
 * the number of lines of each rule.
 *
 * gcc -O2 -o hyperscan hyperscan.c -lhs
 */
#include <errno.h>
#include <fcntl.h>
#include <hs/hs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 256 << 10, HEADER = 40 };

struct rules {
	char **expressions;
	unsigned *ids, *flags;
	unsigned n, max;
};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "hyperscan: %s: %s\n", what, why);
	exit(1);
}

static void *grow(void *p, size_t size)
{
	p = realloc(p, size);
	if (!p)
		die("memory", strerror(errno));
	return p;
}

/* add takes one line `id:/expression/`. */
static void add(struct rules *r, const char *line)
{
	const char *open = strchr(line, '/'), *shut = strrchr(line, '/');
	if (!open || shut == open)
		die(line, "is not of the form id:/expression/");
	r->expressions = grow(r->expressions, (r->n + 1) * sizeof *r->expressions);
	r->ids = grow(r->ids, (r->n + 1) * sizeof *r->ids);
	r->flags = grow(r->flags, (r->n + 1) * sizeof *r->flags);
	r->expressions[r->n] = strndup(open + 1, shut - open - 1);
	r->ids[r->n] = strtoul(line, NULL, 10);
	r->flags[r->n] = HS_FLAG_SINGLEMATCH;
	if (r->ids[r->n] > r->max)
		r->max = r->ids[r->n];
	r->n++;
}

static struct rules read_rules(const char *name)
{
	struct rules r = {0};
	char *line = NULL;
	size_t size = 0;
	FILE *f = fopen(name, "r");
	if (!f)
		die(name, strerror(errno));
	while (getline(&line, &size, f) > 0)
		add(&r, line);
	free(line);
	fclose(f);
	return r;
}

static int found(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *counts)
{
	((unsigned long long *)counts)[id]++;
	return 0;
}

/* text returns where the text of a line begins. */
static const char *text(const char *line, size_t n)
{
	int header = n >= HEADER && line[29] == 'Z' && line[30] == ' ' && line[37] == ' ' && line[39] == ' ';
	return header ? line + HEADER : line;
}

int main(int argc, char **argv)
{
	hs_database_t *db;
	hs_compile_error_t *problem;
	hs_scratch_t *scratch = NULL;
	unsigned long long lines = 0, *counts;
	size_t have = 0, room = 2 * BLOCK;
	ssize_t n;

	if (argc < 3)
		die("use", "hyperscan RULES LOG [counts]");
	struct rules r = read_rules(argv[1]);
	counts = calloc(r.max + 1, sizeof *counts);
	if (hs_compile_multi((const char *const *)r.expressions, r.flags, r.ids, r.n, HS_MODE_BLOCK, NULL, &db, &problem))
		die(argv[1], problem->message);
	if (hs_alloc_scratch(db, &scratch))
		die("scratch", "not enough memory");
	int fd = open(argv[2], O_RDONLY);
	if (fd < 0)
		die(argv[2], strerror(errno));
	char *buf = grow(NULL, room);
	for (;;) {
		if (room - have < BLOCK)
			buf = grow(buf, room *= 2);
		n = read(fd, buf + have, BLOCK);
		if (n < 0)
			die(argv[2], strerror(errno));
		if (n == 0)
			break;
		char *line = buf, *end = buf + have + n, *stop;
		while ((stop = memchr(line, '\n', end - line))) {
			const char *t = text(line, stop - line);
			lines++;
			if (hs_scan(db, t, stop - t, 0, scratch, found, counts))
				die(argv[2], "hs_scan");
			line = stop + 1;
		}
		have = end - line;
		memmove(buf, line, have);
	}
	for (unsigned i = 0; argc > 3 && i <= r.max; i++)
		if (counts[i])
			printf("%u %llu\n", i, counts[i]);
	fprintf(stderr, "%llu lines\n", lines);
	return 0;
}
