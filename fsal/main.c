// SPDX-License-Identifier: LGPL-3.0-or-later
/* The module: loading, the TARN block, the engine's life. */
#include "tarn_fsal.h"

#include "FSAL/fsal_init.h"
#include "dbus.h"
#include "nfs_core.h"
#include "number.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define SUPPORTED_ATTRS ((attrmask_t)(ATTRS_POSIX | ATTR_CREATION | ATTR_ACL | ATTR4_XATTR))

/* Beside ganesha's own state. */
#define POOL_LIST "/var/lib/nfs/ganesha/tarn-pools"

struct tarn_module TARN = {
    .fsal.fs_info =
	{
	    .maxfilesize = TARN_FILE_MAX,
	    .maxlink = UINT32_MAX,
	    .maxnamelen = TARN_NAME_MAX,
	    .maxpathlen = TARN_SYMLINK_MAX,
	    .no_trunc = true,
	    .chown_restricted = true,
	    .case_preserving = true,
	    .link_support = true,
	    .symlink_support = true,
	    .lock_support = false, /* ganesha keeps all locks, NLM's and v4's together */
	    .unique_handles = true,
	    .acl_support = FSAL_ACLSUPPORT_ALLOW | FSAL_ACLSUPPORT_DENY,
	    .cansettime = true,
	    .homogenous = true,
	    .supported_attrs = SUPPORTED_ATTRS,
	    .maxread = MAX_IO,
	    .maxwrite = MAX_IO,
	    .link_supports_permission_checks = true,
	    .compliant_eof_behavior = true,
	    .xattr_support = true,
	    .expire_time_parent = 1, /* seconds: datasets are renamed behind MDCACHE's back */
	},
};

/* Ganesha's own, to which ours adds. */
static int (*default_unload)(struct fsal_module *module);

/* ---- the TARN block ---- */

static int number_handler(const char *token, enum term_type hint, struct config_item *item,
			  void *param, void *node, struct config_error_type *err_type)
{
	(void)hint, (void)node;
	if (parse_number(token, param))
		return 0;
	LogCrit(COMPONENT_CONFIG,
		"TARN { %s = %s }: give a number, or one with K, M, G or T in quotes (\"16G\")",
		item->name, token);
	err_type->invalid = true;
	return 1;
}

static void *number_init(void *link, void *self)
{
	(void)link;
	return self; /* the defaults are set before the block is read */
}

#define NUMBER(name, member) CONF_ITEM_PROC(name, number_init, number_handler, fsal_options, member)

static struct config_item tarn_items[] = {
    NUMBER("Arc_Max", arc_max),
    NUMBER("Dirty_Max", dirty_max),
    NUMBER("Io_Max", io_max),
    NUMBER("Threads", threads),
    NUMBER("Txg_Seconds", txg_seconds),
    CONF_ITEM_PATH("Pool_List", 1, MAXPATHLEN, POOL_LIST, fsal_options, pool_list),
    CONFIG_EOL,
};

static const struct {
	const char *name;
	size_t offset;
	uint64_t min, max; /* besides 0, if that is the default */
	bool zero;
} ranges[] = {
    {"Arc_Max", offsetof(struct fsal_options, arc_max), TARN_LIMIT_MIN, 1ULL << 50, true},
    {"Dirty_Max", offsetof(struct fsal_options, dirty_max), TARN_LIMIT_MIN, 1ULL << 50, true},
    {"Io_Max", offsetof(struct fsal_options, io_max), MAX_IO, 1ULL << 50, false},
    {"Threads", offsetof(struct fsal_options, threads), 1, 1024, true},
    {"Txg_Seconds", offsetof(struct fsal_options, txg_seconds), 1, 60, false},
};

static bool options_in_range(const struct fsal_options *options)
{
	bool good = true;

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		uint64_t value = *(const uint64_t *)((const char *)options + ranges[i].offset);
		if ((value >= ranges[i].min && value <= ranges[i].max) ||
		    (value == 0 && ranges[i].zero))
			continue;
		LogCrit(COMPONENT_CONFIG,
			"TARN { %s = %" PRIu64 " }: must be from %" PRIu64 " to %" PRIu64,
			ranges[i].name, value, ranges[i].min, ranges[i].max);
		good = false;
	}
	return good;
}

static struct config_block tarn_block = {
    .dbus_interface_name = "org.ganesha.nfsd.config.fsal.tarn",
    .blk_desc.name = "TARN",
    .blk_desc.type = CONFIG_BLOCK,
    .blk_desc.u.blk.init = noop_conf_init,
    .blk_desc.u.blk.params = tarn_items,
    .blk_desc.u.blk.commit = noop_conf_commit,
};

/* err_type gathers the errors of the whole file: only what this block adds counts. */
static bool options_read(config_file_t config, struct config_error_type *err_type)
{
	struct config_error_type before = *err_type;

	err_type->bogus = err_type->invalid = false;
	TARN.options = (struct fsal_options){.io_max = (uint64_t)1 << 30, .txg_seconds = 5};
	int r = load_config_from_parse(config, &tarn_block, &TARN.options, true, err_type);
	bool good =
	    r >= 0 && !err_type->bogus && !err_type->invalid && err_type->errors == before.errors;
	err_type->bogus |= before.bogus;
	err_type->invalid |= before.invalid;
	return good && options_in_range(&TARN.options);
}

/* ---- the engine ---- */

static void engine_log(enum tarn_log_level level, const char *text)
{
	switch (level) {
	case TARN_LOG_DEBUG:
		LogDebug(COMPONENT_FSAL, "%s", text);
		break;
	case TARN_LOG_INFO:
		LogEvent(COMPONENT_FSAL, "%s", text);
		break;
	case TARN_LOG_WARN:
		LogWarn(COMPONENT_FSAL, "%s", text);
		break;
	case TARN_LOG_ERROR:
		LogCrit(COMPONENT_FSAL, "%s", text);
		break;
	}
}

static void pools_changed(void *arg, const char *name, uint64_t guid, bool present)
{
	(void)arg;
	atomic_fetch_add(&TARN.epoch, 1);
	LogEvent(COMPONENT_FSAL, "Pool %s %s", name, present ? "is served" : "goes away");
	if (present)
		exports_greet(name, guid);
	int r = pool_list_update(&TARN.pools, TARN.engine, name, guid, present);
	if (r != 0)
		LogCrit(COMPONENT_FSAL,
			"Pool %s: %s could not be updated (%s); at the next start it may have to "
			"be imported by hand",
			name, TARN.options.pool_list, strerror(-r));
}

static void import_failed(const char *name, const char *why)
{
	LogCrit(COMPONENT_FSAL, "Pool %s is not imported, its exports wait: %s", name, why);
}

/*
 * Ganesha tells its runs apart by the second in which each began: by NFSv3's write verifier, and
 * in the ids of NFSv4's clients and states. None serves before that second is over, so that
 * one which crashes and is started again at once is not taken for the same.
 */
static void second_wait(void)
{
	const struct timespec over = {.tv_sec = nfs_ServerBootTime.tv_sec + 1};

	while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &over, NULL) == EINTR)
		;
}

static int engine_start(void)
{
	struct tarn_config config = {
	    .arc_max = TARN.options.arc_max,
	    .dirty_max = TARN.options.dirty_max,
	    .threads = (unsigned)TARN.options.threads,
	    .txg_seconds = (unsigned)TARN.options.txg_seconds,
	    .log = engine_log,
	};
	int r;

	if (getrandom(&TARN.verifier, sizeof(TARN.verifier), 0) != sizeof(TARN.verifier))
		return -EIO;
	clock_gettime(CLOCK_REALTIME, &TARN.started);
	TARN.started.tv_nsec = 0;
	TARN.durable_max = nfs_param.core_param.rpc.ioq_thrd_max / 2;
	if (TARN.durable_max == 0)
		TARN.durable_max = 1;
	r = tarn_engine_create(&config, &TARN.engine);
	if (r != 0)
		return r;
	tarn_pool_on_change(TARN.engine, pools_changed, NULL);
	r = pool_list_open(&TARN.pools, TARN.options.pool_list);
	if (r != 0)
		LogCrit(COMPONENT_FSAL, "%s can't be read in full (%s)", TARN.options.pool_list,
			strerror(-r));
	pool_list_import(&TARN.pools, TARN.engine, import_failed);
	second_wait();
	return 0;
}

static fsal_status_t init_config(struct fsal_module *module, config_file_t config,
				 struct config_error_type *err_type)
{
	(void)module;
	if (!options_read(config, err_type)) {
		LogCrit(COMPONENT_FSAL, "Tarn does not start: an error in the TARN block");
		return fsalstat(ERR_FSAL_INVAL, EINVAL);
	}
	int r = engine_start();
	if (r != 0) {
		LogCrit(COMPONENT_FSAL, "Tarn does not start: %s",
			r == -EINVAL ? "Arc_Max or Dirty_Max is more than the memory of this host"
				     : strerror(-r));
		return fsalstat(ERR_FSAL_BAD_INIT, -r);
	}
	return ok();
}

/* All exports are gone and no request is left. */
static int unload(struct fsal_module *module)
{
	if (TARN.engine) {
		tarn_dbus_stop();
		/* These pools stay in the list: the next start imports them. */
		tarn_pool_on_change(TARN.engine, NULL, NULL);
		tarn_engine_destroy(TARN.engine);
		TARN.engine = NULL;
		pool_list_close(&TARN.pools);
	}
	states_fini();
	return default_unload(module);
}

MODULE_INIT void tarn_fsal_load(void)
{
	if (register_fsal(&TARN.fsal, "TARN", FSAL_MAJOR_VERSION, FSAL_MINOR_VERSION,
			  FSAL_ID_NO_PNFS) != 0)
		return; /* ganesha has said why */
	default_unload = TARN.fsal.m_ops.unload;
	PTHREAD_MUTEX_init(&TARN.exports_lock, NULL);
	states_init();
	TARN.fsal.m_ops.init_config = init_config;
	TARN.fsal.m_ops.create_export = export_create;
	TARN.fsal.m_ops.update_export = export_update;
	TARN.fsal.m_ops.unload = unload;
	fsal_default_obj_ops_init(&TARN.inode_ops);
	handle_ops(&TARN.inode_ops);
	attr_ops(&TARN.inode_ops);
	namei_ops(&TARN.inode_ops);
	open_ops(&TARN.inode_ops);
	io_ops(&TARN.inode_ops);
	xattr_ops(&TARN.inode_ops);
	fsal_default_obj_ops_init(&TARN.pools_ops);
	handle_ops(&TARN.pools_ops);
	pools_ops(&TARN.pools_ops);
	fsal_default_obj_ops_init(&TARN.listed_ops);
	names_ops(&TARN.listed_ops);
}

MODULE_FINI void tarn_fsal_unload(void)
{
	PTHREAD_MUTEX_destroy(&TARN.exports_lock);
	gsh_free(TARN.options.pool_list);
	unregister_fsal(&TARN.fsal);
}
