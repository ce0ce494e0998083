// SPDX-License-Identifier: LGPL-3.0-or-later
#include "dataset/prop.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct prop_def {
	const char *name;
	const char *def;
	const char
	    *allowed; /* for messages; words separated by | are the allowed values themselves */
	bool inheritable;
	/* NULL: one of the words of `allowed`. Else -EINVAL, or the canonical form. */
	int (*check)(const char *value, char canonical[PROP_VALUE_MAX + 1]);
	void (*apply)(struct dataset_props *props, const char *value); /* NULL: informative only */
};

static bool is_on(const char *value)
{
	return strcmp(value, "on") == 0;
}

static int check_compression(const char *value, char canonical[PROP_VALUE_MAX + 1])
{
	int level, end = 0;

	if (strcmp(value, "on") == 0)
		value = "lz4";
	if (strcmp(value, "lz4") && strcmp(value, "off") && strcmp(value, "zstd")) {
		if (sscanf(value, "zstd-%2d%n", &level, &end) != 1 || value[end] || level < 1 ||
		    level > 19 || !isdigit((unsigned char)value[5]))
			return -EINVAL;
	}
	snprintf(canonical, PROP_VALUE_MAX + 1, "%s", value);
	return 0;
}

static void apply_compression(struct dataset_props *props, const char *value)
{
	uint8_t comp = COMP_LZ4, level = 0;

	if (strcmp(value, "off") == 0) {
		comp = COMP_OFF;
	} else if (strncmp(value, "zstd", 4) == 0) {
		comp = COMP_ZSTD;
		level = value[4] == '-' ? (uint8_t)atoi(value + 5) : 3;
	}
	props->comp_level = level;
	props->comp = comp;
}

static int check_checksum(const char *value, char canonical[PROP_VALUE_MAX + 1])
{
	if (strcmp(value, "on") == 0)
		value = "xxh3";
	if (strcmp(value, "xxh3") && strcmp(value, "sha256"))
		return -EINVAL;
	strcpy(canonical, value);
	return 0;
}

static void apply_checksum(struct dataset_props *props, const char *value)
{
	props->cksum = strcmp(value, "sha256") == 0 ? CKSUM_SHA256 : CKSUM_XXH3;
}

static int check_recordsize(const char *value, char canonical[PROP_VALUE_MAX + 1])
{
	char *end;
	unsigned long long n;

	if (!isdigit((unsigned char)*value))
		return -EINVAL;
	errno = 0;
	n = strtoull(value, &end, 10);
	if (errno)
		return -EINVAL;
	if (*end == 'k' || *end == 'K')
		n = n > BLOCK_MAX ? n : n << 10, end++;
	else if (*end == 'm' || *end == 'M')
		n = n > BLOCK_MAX ? n : n << 20, end++;
	if (*end == 'b' || *end == 'B')
		end++;
	if (*end || n < SECTOR_SIZE || n > BLOCK_MAX || (n & (n - 1)))
		return -EINVAL;
	snprintf(canonical, PROP_VALUE_MAX + 1, "%llu", n);
	return 0;
}

static void apply_recordsize(struct dataset_props *props, const char *value)
{
	props->recordsize = (uint32_t)strtoul(value, NULL, 10);
}

static void apply_atime(struct dataset_props *props, const char *value)
{
	props->atime = strcmp(value, "relatime") == 0 ? 2 : is_on(value);
}

static void apply_copies(struct dataset_props *props, const char *value)
{
	props->copies = (uint8_t)atoi(value);
}

static void apply_sync(struct dataset_props *props, const char *value)
{
	props->sync = strcmp(value, "always") == 0     ? SYNC_ALWAYS
		      : strcmp(value, "disabled") == 0 ? SYNC_DISABLED
						       : SYNC_STANDARD;
}

static void apply_readonly(struct dataset_props *props, const char *value)
{
	props->readonly = is_on(value);
}

static void apply_xattr(struct dataset_props *props, const char *value)
{
	props->xattr = is_on(value);
}

static void apply_acltype(struct dataset_props *props, const char *value)
{
	props->acl = strcmp(value, "nfsv4") == 0;
}

static void apply_snapdir(struct dataset_props *props, const char *value)
{
	props->snapdir_visible = strcmp(value, "visible") == 0;
}

static void apply_canmount(struct dataset_props *props, const char *value)
{
	props->canmount = is_on(value);
}

static int check_text(const char *value, char canonical[PROP_VALUE_MAX + 1])
{
	snprintf(canonical, PROP_VALUE_MAX + 1, "%s", value);
	return 0;
}

static const struct prop_def defs[] = {
    {"compression", "lz4", "lz4, zstd, zstd-1 to zstd-19, off, on", true, check_compression,
     apply_compression},
    {"checksum", "xxh3", "xxh3, sha256, on", true, check_checksum, apply_checksum},
    {"recordsize", "131072", "a power of two from 4K to 1M", true, check_recordsize,
     apply_recordsize},
    {"atime", "relatime", "on|off|relatime", true, NULL, apply_atime},
    {"readonly", "off", "on|off", true, NULL, apply_readonly},
    {"copies", "2", "1|2", true, NULL, apply_copies},
    {"sync", "standard", "standard|always|disabled", true, NULL, apply_sync},
    {"xattr", "on", "on|off", true, NULL, apply_xattr},
    {"acltype", "nfsv4", "nfsv4|off", true, NULL, apply_acltype},
    {"snapdir", "hidden", "hidden|visible", true, NULL, apply_snapdir},
    {"canmount", "on", "on|off", false, NULL, apply_canmount},
    {"comment", "", "any text", false, check_text, NULL},
};
#define NDEFS (sizeof(defs) / sizeof(defs[0]))

static const struct prop_def *find_def(const char *name)
{
	for (unsigned i = 0; i < NDEFS; i++)
		if (strcmp(defs[i].name, name) == 0)
			return &defs[i];
	return NULL;
}

/* module:name as in ZFS: lower case letters, digits and -_.:+ with a colon inside. */
static bool is_user_prop(const char *name)
{
	const char *colon = strchr(name, ':');
	size_t len = strlen(name);

	if (!colon || colon == name || !colon[1] || len > PROP_NAME_MAX)
		return false;
	return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.:+") == len;
}

const char *prop_native(unsigned n)
{
	return n < NDEFS ? defs[n].name : NULL;
}

bool prop_settable(const char *name)
{
	return find_def(name) || is_user_prop(name);
}

bool prop_inheritable(const char *name)
{
	const struct prop_def *def = find_def(name);

	return def ? def->inheritable : is_user_prop(name);
}

static int refuse(struct tarn_error *err, const char *fmt, const char *a, const char *b,
		  const char *c)
{
	err->code = -EINVAL;
	snprintf(err->text, sizeof(err->text), fmt, a, b, c);
	return -EINVAL;
}

static bool is_word_of(const char *allowed, const char *value)
{
	size_t len = strlen(value);

	for (const char *at = allowed; *at; at += strcspn(at, "|"), at += *at == '|')
		if (strcspn(at, "|") == len && strncmp(at, value, len) == 0)
			return true;
	return false;
}

int prop_check(const char *name, const char *value, char canonical[PROP_VALUE_MAX + 1],
	       struct tarn_error *err)
{
	const struct prop_def *def = find_def(name);
	int rc = 0;

	if (!prop_settable(name))
		return refuse(err,
			      "there is no settable property '%.64s'; user properties are "
			      "written module:name in lower case%s%s",
			      name, "", "");
	if (strlen(value) > PROP_VALUE_MAX)
		return refuse(err, "the value of '%.64s' is longer than 2047 bytes%s%s", name, "",
			      "");
	for (const char *c = value; *c; c++)
		if (iscntrl((unsigned char)*c))
			return refuse(err, "the value of '%.64s' holds a control character%s%s",
				      name, "", "");
	if (def && def->check)
		rc = def->check(value, canonical);
	else if (def && !is_word_of(def->allowed, value))
		rc = -EINVAL;
	else
		strcpy(canonical, value);
	if (rc)
		return refuse(err, "'%.64s' is not a value of property '%.64s'; it takes %s", value,
			      name, def->allowed);
	return 0;
}

static struct prop_value *find_local(struct tarn_dataset *ds, const char *name)
{
	for (struct prop_value *v = ds->local; v; v = v->next)
		if (strcmp(v->name, name) == 0)
			return v;
	return NULL;
}

int prop_set_local(struct tarn_dataset *ds, const char *name, const char *value)
{
	struct prop_value **at = &ds->local, *v;

	while (*at && strcmp((*at)->name, name) < 0)
		at = &(*at)->next;
	v = *at && strcmp((*at)->name, name) == 0 ? *at : NULL;
	if (!value) {
		if (v) {
			*at = v->next;
			free(v->value);
			free(v);
		}
		return 0;
	}
	char *copy = strdup(value);
	if (!copy)
		return -ENOMEM;
	if (!v) {
		v = malloc(sizeof(*v) + strlen(name) + 1);
		if (!v) {
			free(copy);
			return -ENOMEM;
		}
		strcpy(v->name, name);
		v->value = NULL;
		v->next = *at;
		*at = v;
	}
	free(v->value);
	v->value = copy;
	return 0;
}

void prop_free_local(struct tarn_dataset *ds)
{
	while (ds->local)
		prop_set_local(ds, ds->local->name, NULL);
}

const char *prop_effective(struct tarn_dataset *ds, const char *name, struct tarn_dataset **from)
{
	const struct prop_def *def = find_def(name);
	bool up = prop_inheritable(name);

	for (; ds; ds = up ? ds->parent : NULL) {
		struct prop_value *v = find_local(ds, name);

		if (v) {
			*from = ds;
			return v->value;
		}
	}
	*from = NULL;
	return def ? def->def : NULL;
}

void prop_apply(struct tarn_dataset *ds)
{
	struct tarn_dataset *from;

	for (unsigned i = 0; i < NDEFS; i++)
		if (defs[i].apply)
			defs[i].apply(&ds->props, prop_effective(ds, defs[i].name, &from));
	for (struct tarn_dataset *c = ds->children; c; c = c->sibling)
		prop_apply(c);
}

void prop_format(const char *name, const char *value, char out[PROP_VALUE_MAX + 1])
{
	if (strcmp(name, "recordsize") == 0) {
		unsigned long n = strtoul(value, NULL, 10);

		if (n == BLOCK_MAX)
			strcpy(out, "1M");
		else
			snprintf(out, PROP_VALUE_MAX + 1, "%luK", n >> 10);
	} else {
		snprintf(out, PROP_VALUE_MAX + 1, "%s", value);
	}
}
