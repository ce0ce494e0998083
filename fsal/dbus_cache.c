// SPDX-License-Identifier: LGPL-3.0-or-later
#include "dbus_request.h"

#include <errno.h>

static int statistics(struct request *rq)
{
	struct tarn_cache_stats s;
	struct out dict;

	tarn_engine_cache_stats(rq->engine, &s);
	put_open(&rq->out, DBUS_TYPE_ARRAY, "{sv}", &dict);
	put_entry_u64(&dict, "size", s.size);
	put_entry_u64(&dict, "max", s.max);
	put_entry_u64(&dict, "data_size", s.data_size);
	put_entry_u64(&dict, "meta_size", s.meta_size);
	put_entry_u64(&dict, "hits", s.hits);
	put_entry_u64(&dict, "misses", s.misses);
	put_entry_u64(&dict, "meta_hits", s.meta_hits);
	put_entry_u64(&dict, "meta_misses", s.meta_misses);
	put_entry_u64(&dict, "evictions", s.evictions);
	put_entry_u64(&dict, "inserted", s.inserted);
	put_close(&rq->out, &dict);
	return 0;
}

static int set_limits(struct request *rq)
{
	int r = take_options(rq);

	if (r)
		return r;
	if (!rq->options.arc_max && !rq->options.dirty_max)
		return request_fail(rq, -EINVAL, "no limit given: set arc_max or dirty_max");
	r = tarn_engine_set_limits(rq->engine, rq->options.arc_max, rq->options.dirty_max);
	if (r == -EINVAL)
		return request_fail(rq, r,
				    "a limit is at least 8 MiB and at most this machine's memory");
	return r;
}

#define INTERFACE "org.ganesha.nfsd.tarn.Cache"

const struct method dbus_cache_methods[] = {
    {INTERFACE, "Statistics", "", "statistics:a{sv}", NULL, true, statistics},
    {INTERFACE, "SetLimits", "limits:a{sv}", "", "arc_max dirty_max", true, set_limits},
    {0},
};
