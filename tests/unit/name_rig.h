// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A pool on one device, and short words for what tests do with directories through the public API.
 * What fails ends the test, but for the functions that return an error.
 */
#ifndef TESTS_NAME_RIG_H
#define TESTS_NAME_RIG_H

#include "pool_fixture.h"

extern struct fixture f;
extern struct tarn_inode *root; /* of the pool's first dataset */

/* Of a group of tests. */
int name_setup(void **state);
int name_teardown(void **state);
/* Export, check, import; root is another one then, all other inodes are dead. */
void remount(void);

/* out NULL: its reference is given back. */
int make(const struct tarn_cred *cred, struct tarn_inode *dir, const char *name,
	 enum tarn_type type, uint32_t mode, struct tarn_inode **out);
struct tarn_inode *dir_new(struct tarn_inode *dir, const char *name, uint32_t mode);
struct tarn_inode *file_new(struct tarn_inode *dir, const char *name);
struct tarn_attr attr_of(struct tarn_inode *inode);
int drop(const struct tarn_cred *cred, struct tarn_inode *dir, const char *name);
int move(const struct tarn_cred *cred, struct tarn_inode *from_dir, const char *from,
	 struct tarn_inode *to_dir, const char *to);
/* Makes or removes the files prefixFROM ... prefix(TO - 1). */
void fill(struct tarn_inode *dir, const char *prefix, unsigned from, unsigned to);
void empty(struct tarn_inode *dir, const char *prefix, unsigned from, unsigned to);
/* The inode number behind a name; 0 if there is none. */
uint64_t number(struct tarn_inode *dir, const char *name);
/* Inodes that exist, removed ones that still wait for the reaper included. */
uint64_t inodes(void);
/* Until the reaper has left only that many. */
void wait_for_inodes(uint64_t n);

/* A listing, collected; at is the caller's to free. */
struct list {
	uint32_t n, max;
	struct {
		char name[TARN_NAME_MAX + 1];
		uint64_t cookie, ino;
	} * at;
};
struct list list_from(struct tarn_inode *dir, uint64_t cookie, uint32_t max, bool *eof);
/* 0: no such entry. */
uint64_t cookie_of(struct tarn_inode *dir, const char *name);

#endif
