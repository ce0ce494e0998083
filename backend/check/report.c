// SPDX-License-Identifier: LGPL-3.0-or-later
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "check/impl.h"

const char *tarn_finding_name(enum tarn_finding_kind kind)
{
	static const char *const names[TARN_FOUND_KINDS] = {
	    [TARN_FOUND_DEVICE] = "device",
	    [TARN_FOUND_LABEL] = "label",
	    [TARN_FOUND_UBERBLOCK] = "uberblock",
	    [TARN_FOUND_SLAB_TABLE] = "slab-table",
	    [TARN_FOUND_COLUMN] = "column",
	    [TARN_FOUND_COPY] = "copy",
	    [TARN_FOUND_BLOCK] = "block",
	    [TARN_FOUND_NODE] = "node",
	    [TARN_FOUND_POOL_TREE] = "pool-tree",
	    [TARN_FOUND_DATASET] = "dataset",
	    [TARN_FOUND_PROPERTY] = "property",
	    [TARN_FOUND_CHUNK] = "chunk",
	    [TARN_FOUND_INTENT_LOG] = "intent-log",
	    [TARN_FOUND_ALLOC_LOG] = "allocation-log",
	    [TARN_FOUND_LEAK] = "leak",
	    [TARN_FOUND_UNALLOCATED] = "unallocated",
	    [TARN_FOUND_SHARED] = "shared",
	    [TARN_FOUND_USAGE] = "usage",
	    [TARN_FOUND_INODE] = "inode",
	    [TARN_FOUND_INODE_MAP] = "inode-map",
	    [TARN_FOUND_ORPHAN] = "orphan",
	    [TARN_FOUND_DATA] = "data",
	    [TARN_FOUND_ATTRIBUTE] = "attribute",
	    [TARN_FOUND_ENTRY] = "entry",
	    [TARN_FOUND_LINKS] = "links",
	    [TARN_FOUND_PARENT] = "parent",
	};

	return kind < TARN_FOUND_KINDS ? names[kind] : "unknown";
}

/* "txg 7: tank/home:/a/b (inode 12): text"; the txg only of states that are not the newest. */
void found_in(struct check *c, enum tarn_finding_kind kind, const char *dataset, uint64_t inode,
	      const char *path, const char *text)
{
	char line[TARN_PATH_MAX * 4 + PATH_ROOM + TEXT_MAX + 64];
	size_t n = 0;
	struct tarn_finding finding = {.kind = kind,
				       .txg = c->pool->uber.txg,
				       .dataset = dataset,
				       .inode = inode,
				       .path = path,
				       .text = line};

	if (c->skip)
		n += (size_t)snprintf(line + n, sizeof(line) - n, "txg %" PRIu64 ": ", finding.txg);
	if (dataset)
		n += (size_t)snprintf(line + n, sizeof(line) - n, "%s:%s ", dataset,
				      path ? path : "");
	if (inode)
		n +=
		    (size_t)snprintf(line + n, sizeof(line) - n,
				     path ? "(inode %" PRIu64 "): " : "inode %" PRIu64 ": ", inode);
	snprintf(line + n, sizeof(line) - n, "%s", text);
	c->result->findings++;
	c->spec->finding(c->spec->arg, &finding);
}

void found(struct check *c, enum tarn_finding_kind kind, const char *fmt, ...)
{
	char text[TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	found_in(c, kind, NULL, 0, NULL, text);
}

void found_at(const struct place *place, enum tarn_finding_kind kind, const char *fmt, ...)
{
	char text[TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	place->report(place->arg, kind, place->inode, text);
}

static void report_pool(void *arg, enum tarn_finding_kind kind, uint64_t inode, const char *text)
{
	found_in(arg, kind, NULL, inode, NULL, text);
}

struct place pool_place(struct check *c)
{
	return (struct place){.report = report_pool, .arg = c};
}

void tell_progress(struct check *c)
{
	struct tarn_check_progress p = {.txg = c->pool->uber.txg,
					.done = c->result->bytes - c->bytes_before,
					.total = c->total,
					.findings = c->result->findings};
	struct timespec now;

	if (!c->spec->progress)
		return;
	if (p.total && p.done > p.total) /* what is shared counts twice */
		p.done = p.total;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if ((now.tv_sec - c->told.tv_sec) * 1000 + (now.tv_nsec - c->told.tv_nsec) / 1000000 < 500)
		return;
	c->told = now;
	c->spec->progress(c->spec->arg, &p);
}

/* ---- names ---- */

/* Bytes of the UTF-8 character that text begins with; 0 if it is none or a control character. */
static size_t character(const uint8_t *text, size_t len)
{
	static const struct {
		uint8_t mask, lead;
		uint32_t least;
	} forms[] = {
	    {0x80, 0, 0x20}, {0xe0, 0xc0, 0xa0}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};

	for (size_t n = 1; n <= 4 && n <= len; n++) {
		uint32_t code = text[0] & ~(uint32_t)forms[n - 1].mask;
		size_t i = 1;

		if ((text[0] & forms[n - 1].mask) != forms[n - 1].lead)
			continue;
		while (i < n && (text[i] & 0xc0) == 0x80)
			code = code << 6 | (text[i++] & 0x3f);
		if (i < n || code < forms[n - 1].least || code == 0x7f || code > 0x10ffff ||
		    (code >= 0xd800 && code < 0xe000))
			return 0;
		return n;
	}
	return 0;
}

size_t printable(const char *name, size_t len, char *out, size_t room)
{
	const uint8_t *at = (const uint8_t *)name, *end = at + len;
	size_t used = 0;

	while (at < end) {
		size_t n = *at == '\\' ? 0 : character(at, (size_t)(end - at));

		if (used + (n ? n : 4) >= room) {
			used = 0;
			break;
		}
		if (n) {
			memcpy(out + used, at, n);
			used += n;
			at += n;
		} else {
			used += (size_t)sprintf(out + used, "\\%03o", *at++);
		}
	}
	out[used] = '\0';
	return used;
}
