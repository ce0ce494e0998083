// SPDX-License-Identifier: LGPL-3.0-or-later
/* runs 20000 */
/* Arguments of each method of the D-Bus service, of the right signature (dbus.c has checked that)
   and of any content, with a stand-in for the engine. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "dbus_request.h"
#include "fake_engine.h"

static struct tarn_engine engine;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const datasets[] = {"p", "p/a", "p/b"};

	(void)argc, (void)argv;
	fake_init(&engine);
	engine.datasets = datasets;
	engine.ndatasets = 3;
	fake_release(&engine); /* nothing hangs */
	return 0;
}

static const struct method *nth_method(unsigned n)
{
	const struct method *const tables[] = {dbus_pool_methods, dbus_dataset_methods,
					       dbus_cache_methods};
	unsigned total = 0;

	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned t = 0; t < 3; t++)
			for (const struct method *m = tables[t]; m->name; m++)
				if (pass == 0)
					total++;
				else if (n-- == 0)
					return m;
		n %= total;
	}
	return nth_method(n);
}

/* Words that mean something, or any bytes that are UTF-8. */
static void add_string(struct fuzz_input *in, DBusMessageIter *to)
{
	static const char *const words[] = {"single",  "mirror", "all",   "comment",   "p/a",
					    "p",       "",       "force", "error-28",  "bare-5",
					    "command", "limit",  "after", "recursive", "/dev/null"};
	unsigned n = fuzz_number(in, 1);
	char text[256] = "";
	const char *word = text;

	if (n < sizeof(words) / sizeof(words[0]))
		word = words[n];
	else
		fuzz_bytes(in, text, n - sizeof(words) / sizeof(words[0]));
	if (!dbus_validate_utf8(word, NULL))
		word = "invalid";
	dbus_message_iter_append_basic(to, DBUS_TYPE_STRING, &word);
}

static void add_number(struct fuzz_input *in, DBusMessageIter *to, int type)
{
	uint64_t value = fuzz_number(in, 8);

	if (type == DBUS_TYPE_BOOLEAN)
		value &= 1;
	dbus_message_iter_append_basic(to, type, &value);
}

static void add_value(struct fuzz_input *in, DBusMessageIter *to, DBusSignatureIter *type);

/* A variant of one of the types that options have, or of another. */
static void add_variant(struct fuzz_input *in, DBusMessageIter *to)
{
	static const char *const types[] = {"b", "s", "t", "u", "as", "v"};
	const char *signature = types[fuzz_number(in, 1) % 6];
	DBusMessageIter inner;
	DBusSignatureIter type;

	dbus_signature_iter_init(&type, signature);
	dbus_message_iter_open_container(to, DBUS_TYPE_VARIANT, signature, &inner);
	/* Within a variant another one holds a number: the depth of a message is limited. */
	if (*signature == 'v') {
		DBusMessageIter leaf;

		dbus_message_iter_open_container(&inner, DBUS_TYPE_VARIANT, "t", &leaf);
		add_number(in, &leaf, DBUS_TYPE_UINT64);
		dbus_message_iter_close_container(&inner, &leaf);
	} else {
		add_value(in, &inner, &type);
	}
	dbus_message_iter_close_container(to, &inner);
}

static void add_container(struct fuzz_input *in, DBusMessageIter *to, DBusSignatureIter *type,
			  int kind)
{
	DBusSignatureIter element;
	DBusMessageIter inner;
	char *signature;

	dbus_signature_iter_recurse(type, &element);
	signature = dbus_signature_iter_get_signature(&element);
	dbus_message_iter_open_container(to, kind, kind == DBUS_TYPE_ARRAY ? signature : NULL,
					 &inner);
	if (kind == DBUS_TYPE_ARRAY) {
		for (unsigned n = fuzz_number(in, 1) % 8; n; n--)
			add_value(in, &inner, &element);
	} else {
		do
			add_value(in, &inner, &element);
		while (dbus_signature_iter_next(&element));
	}
	dbus_message_iter_close_container(to, &inner);
	dbus_free(signature);
}

static void add_value(struct fuzz_input *in, DBusMessageIter *to, DBusSignatureIter *type)
{
	int kind = dbus_signature_iter_get_current_type(type);

	if (kind == DBUS_TYPE_STRING)
		add_string(in, to);
	else if (kind == DBUS_TYPE_VARIANT)
		add_variant(in, to);
	else if (dbus_type_is_container(kind))
		add_container(in, to, type, kind);
	else
		add_number(in, to, kind);
}

static void add_arguments(struct fuzz_input *in, const struct method *method, DBusMessageIter *to)
{
	char all[256] = "", *list = strdup(method->in), *save = NULL;
	DBusSignatureIter type;

	for (char *arg = strtok_r(list, " ", &save); arg; arg = strtok_r(NULL, " ", &save))
		strcat(all, strchr(arg, ':') + 1);
	free(list);
	if (!*all)
		return;
	dbus_signature_iter_init(&type, all);
	do
		add_value(in, to, &type);
	while (dbus_signature_iter_next(&type));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, data + size};
	const struct method *method = nth_method(fuzz_number(&in, 1));
	DBusMessage *reply = dbus_message_new(DBUS_MESSAGE_TYPE_METHOD_RETURN);
	struct request rq = {.engine = &engine, .method = method};
	DBusMessageIter to;
	int r;

	rq.message = dbus_message_new_method_call("org.ganesha.nfsd", "/org/ganesha/nfsd/tarn",
						  method->interface, method->name);
	dbus_message_iter_init_append(rq.message, &to);
	add_arguments(&in, method, &to);
	dbus_message_iter_init_append(reply, &rq.out.iter);
	dbus_message_iter_init(rq.message, &rq.in);
	engine.nhistory = 0;
	r = method->run(&rq);
	MUST(r <= 0);
	MUST(memchr(rq.error.text, '\0', sizeof(rq.error.text)));
	request_free_memory(&rq);
	dbus_message_unref(rq.message);
	dbus_message_unref(reply);
	return 0;
}
