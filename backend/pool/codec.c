// SPDX-License-Identifier: LGPL-3.0-or-later
/* The pure parts of the block pipeline: compression and checksums. */
#include <errno.h>
#include <lz4.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>
#include <xxhash.h>
#include <zstd.h>

#include "pool/block.h"
#include "util/mem.h"

/* Contexts are dear to make: each thread keeps its own until it ends. */
struct codec {
	ZSTD_CCtx *comp;
	ZSTD_DCtx *decomp;
	EVP_MD_CTX *digest;
	void *scratch;
};

static pthread_key_t codec_key;
static pthread_once_t codec_once = PTHREAD_ONCE_INIT;

static void codec_free(void *arg)
{
	struct codec *c = arg;

	ZSTD_freeCCtx(c->comp);
	ZSTD_freeDCtx(c->decomp);
	EVP_MD_CTX_free(c->digest);
	free(c->scratch);
	free(c);
}

static void codec_init(void)
{
	pthread_key_create(&codec_key, codec_free);
}

static struct codec *codec(void)
{
	struct codec *c;

	pthread_once(&codec_once, codec_init);
	c = pthread_getspecific(codec_key);
	if (c)
		return c;
	c = mem_zalloc(sizeof(*c));
	c->comp = mem_must(ZSTD_createCCtx());
	c->decomp = mem_must(ZSTD_createDCtx());
	c->digest = mem_must(EVP_MD_CTX_new());
	pthread_setspecific(codec_key, c);
	return c;
}

void *block_scratch(void)
{
	struct codec *c = codec();

	if (!c->scratch)
		c->scratch = malloc(BLOCK_MAX);
	return c->scratch;
}

static uint32_t sectors(uint32_t bytes)
{
	return (bytes + SECTOR_SIZE - 1) >> SECTOR_SHIFT;
}

uint32_t block_compress(enum bp_comp comp, int level, const void *src, uint32_t lsize, void *dst,
			uint32_t room)
{
	/* One sector less, or it does not pay. */
	uint32_t limit = (sectors(lsize) - 1) << SECTOR_SHIFT;
	size_t n;

	if (room < limit)
		limit = room;
	if (!limit)
		return 0;
	switch (comp) {
	case COMP_LZ4:
		return (uint32_t)LZ4_compress_default(src, dst, (int)lsize, (int)limit);
	case COMP_ZSTD:
		n = ZSTD_compressCCtx(codec()->comp, dst, limit, src, lsize, level);
		return ZSTD_isError(n) ? 0 : (uint32_t)n;
	default:
		return 0;
	}
}

int block_decompress(enum bp_comp comp, const void *src, uint32_t psize, void *dst, uint32_t lsize)
{
	size_t n;

	switch (comp) {
	case COMP_OFF:
		if (psize != lsize)
			return -EIO;
		memcpy(dst, src, lsize);
		return 0;
	case COMP_LZ4:
		return LZ4_decompress_safe(src, dst, (int)psize, (int)lsize) == (int)lsize ? 0
											   : -EIO;
	case COMP_ZSTD:
		n = ZSTD_decompressDCtx(codec()->decomp, dst, lsize, src, psize);
		return !ZSTD_isError(n) && n == lsize ? 0 : -EIO;
	default:
		return -EIO;
	}
}

void block_checksum(enum bp_cksum alg, const void *data, uint32_t len, uint8_t sum[32])
{
	XXH128_canonical_t xxh;
	EVP_MD_CTX *ctx;

	memset(sum, 0, 32);
	if (alg == CKSUM_SHA256) {
		ctx = codec()->digest;
		if (EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1 ||
		    EVP_DigestUpdate(ctx, data, len) != 1 ||
		    EVP_DigestFinal_ex(ctx, sum, NULL) != 1)
			mem_must(NULL); /* the digest is built in: only memory can be short */
		return;
	}
	XXH128_canonicalFromHash(&xxh, XXH3_128bits(data, len));
	memcpy(sum, xxh.digest, sizeof(xxh.digest));
}
