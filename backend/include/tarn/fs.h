// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Files: everything a POSIX program or an NFS client asks of a dataset.
 *
 * Operations are atomic: a failed one changes nothing. They return when the change is
 * visible to every other caller; it is durable after tarn_commit_wait() on the token
 * (zero tokens from operations that changed nothing). `post` pointers (may be NULL) receive the
 * attributes right after the operation, taken in it.
 *
 * Calls block for device reads only when metadata is not in memory; tarn_read() and
 * tarn_write() never block the caller.
 *
 * Errors every call may return: -ENXIO (the pool was exported: drop the inode and get it
 * again later), -ESTALE (inode gone), -EIO (data that can't be proven right), -EROFS,
 * -ENOSPC, -ENOMEM. Permission is checked here for changes of directories (write, search,
 * sticky), setattr ownership rules, and nothing else: the caller has checked open, read, write and
 * search access (tarn_access()).
 */
#ifndef TARN_FS_H
#define TARN_FS_H

#include <tarn/dataset.h>
#include <tarn/tarn.h>

enum tarn_type {
	TARN_REG = 1,
	TARN_DIR,
	TARN_LNK,
	TARN_BLK,
	TARN_CHR,
	TARN_FIFO,
	TARN_SOCK,
};

struct tarn_attr {
	enum tarn_type type;
	uint32_t mode;  /* 07777 */
	uint32_t nlink; /* of directories 2 + the directories below, child datasets included */
	uid_t uid;
	gid_t gid;
	uint32_t rdev_major, rdev_minor;
	uint64_t size;
	uint64_t space;    /* bytes allocated; unwritten data counts as it will at most be */
	uint64_t ino, gen; /* ino < 2^32 */
	struct timespec atime, mtime, ctime, btime;
	uint64_t change; /* rises with every change of data or attributes, never repeats */
};

/* ---- NFSv4 ACLs; numbers as in RFC 7530 section 6.2.1 ---- */

enum tarn_who { TARN_WHO_OWNER, TARN_WHO_GROUP, TARN_WHO_EVERYONE, TARN_WHO_UID, TARN_WHO_GID };

struct tarn_ace {
	uint8_t type; /* 0 allow, 1 deny, 2 audit, 3 alarm */
	uint8_t who;  /* enum tarn_who */
	uint16_t pad;
	uint32_t flags; /* file/dir inherit, no propagate, inherit only, group, inherited */
	uint32_t mask;
	uint32_t id; /* for UID and GID */
};

#define TARN_ACE_MAX 1024

struct tarn_acl {
	uint32_t count; /* at most TARN_ACE_MAX */
	struct tarn_ace ace[];
};

/* ---- inodes ---- */

int tarn_root(struct tarn_dataset *ds, struct tarn_inode **out);
int tarn_inode_get(struct tarn_dataset *ds, uint64_t ino, uint64_t gen, struct tarn_inode **out);
struct tarn_inode *tarn_inode_ref(struct tarn_inode *inode);
void tarn_inode_put(struct tarn_inode *inode);

/* Constant for the life of the reference; the dataset is not referenced for the caller. */
struct tarn_dataset *tarn_inode_dataset(struct tarn_inode *inode);
uint64_t tarn_inode_number(const struct tarn_inode *inode);
uint64_t tarn_inode_generation(const struct tarn_inode *inode);
enum tarn_type tarn_inode_type(const struct tarn_inode *inode);
bool tarn_inode_is_root(const struct tarn_inode *inode); /* of its dataset */

/* An open inode lives on after its last name is removed, until the last close.
   Opens are counted; -ESTALE if it has gone already. */
int tarn_open(struct tarn_inode *inode);
void tarn_close(struct tarn_inode *inode);

int tarn_getattr(struct tarn_inode *inode, struct tarn_attr *out);

enum {
	TARN_SET_MODE = 1,
	TARN_SET_UID = 2,
	TARN_SET_GID = 4,
	TARN_SET_SIZE = 8,
	TARN_SET_ATIME = 16,
	TARN_SET_MTIME = 32,
	TARN_SET_ATIME_NOW = 64,
	TARN_SET_MTIME_NOW = 128,
	TARN_SET_BTIME = 256,
	TARN_SET_ACL = 512,
};
struct tarn_setattr {
	uint32_t mask;
	uint32_t mode;
	uid_t uid;
	gid_t gid;
	uint64_t size;
	struct timespec atime, mtime, btime;
	const struct tarn_acl *acl; /* TARN_SET_ACL: NULL or empty removes it */
};
/* Mode and ACL are kept together (RFC 7530 6.4); suid and sgid are cleared where POSIX says. */
int tarn_setattr(const struct tarn_cred *cred, struct tarn_inode *inode,
		 const struct tarn_setattr *set, struct tarn_attr *post, struct tarn_commit *token);

/* *out is freed with free(); an inode without ACL gives one made from its mode. */
int tarn_acl_get(struct tarn_inode *inode, struct tarn_acl **out);

/* ACE mask bits wanted (RFC 7530 6.2.1.3.1); 0 or -EACCES. */
int tarn_access(const struct tarn_cred *cred, struct tarn_inode *inode, uint32_t mask);
/* 0, or -EROFS: the dataset or its pool is read-only. */
int tarn_writable(struct tarn_inode *inode);

/* ---- names ---- */

/* Names "." and ".." are understood; ".." of a dataset's root is its parent dataset's
   root. A child dataset's name gives the child's root (another tarn_inode_dataset()). */
int tarn_lookup(const struct tarn_cred *cred, struct tarn_inode *dir, const char *name,
		struct tarn_inode **out);

struct tarn_create {
	enum tarn_type type;
	struct tarn_setattr set; /* mode, and what else is given; the owner is the caller's */
	uint32_t rdev_major, rdev_minor;
	const char *target; /* TARN_LNK */
	bool exclusive;     /* REG only: an existing file with the same verifier is success */
	uint8_t verifier[8];
};
/* -EEXIST with *out set to the existing inode if it is there (so that open needs no second
   lookup). dir_post: the directory after the change. */
int tarn_create(const struct tarn_cred *cred, struct tarn_inode *dir, const char *name,
		const struct tarn_create *how, struct tarn_inode **out, struct tarn_attr *post,
		struct tarn_attr *dir_post, struct tarn_commit *token);
/* Whether the file was made by an exclusive create with this verifier. */
int tarn_verifier_matches(struct tarn_inode *inode, const uint8_t verifier[8], bool *matches);

int tarn_link(const struct tarn_cred *cred, struct tarn_inode *inode, struct tarn_inode *dir,
	      const char *name, struct tarn_attr *post, struct tarn_attr *dir_post,
	      struct tarn_commit *token);

/* Removes a name of any type; directories must be empty. is_dir: -1 any, 0 -EISDIR for
   directories, 1 -ENOTDIR for others. */
int tarn_unlink(const struct tarn_cred *cred, struct tarn_inode *dir, const char *name, int is_dir,
		struct tarn_attr *dir_post, struct tarn_commit *token);

int tarn_rename(const struct tarn_cred *cred, struct tarn_inode *from_dir, const char *from,
		struct tarn_inode *to_dir, const char *to, struct tarn_attr *from_post,
		struct tarn_attr *to_post, struct tarn_commit *token);

/* *out freed with free(). */
int tarn_readlink(struct tarn_inode *inode, char **out);

struct tarn_dirent {
	const char *name;
	/* From 3, below 2^31 for the first 2^30 names; stable for the life of the entry, never
	   reused. */
	uint64_t cookie;
	struct tarn_inode *inode; /* borrowed: take a reference to keep it */
	struct tarn_attr attr;    /* its attributes while it had the name */
};
/* Entries after cookie (0 = start) in cookie order, without "." and "..", child datasets
   last. fn returns false to stop before more; *eof tells whether the end was reached. No lock
   is held during fn. An entry that stays in place during the listing appears exactly once. */
int tarn_readdir(struct tarn_inode *dir, uint64_t cookie,
		 bool (*fn)(void *arg, const struct tarn_dirent *entry), void *arg, bool *eof);

/* ---- data ---- */

struct tarn_io {
	struct tarn_inode *inode; /* referenced by the caller until done() */
	bool write;
	bool stable; /* write: done() only after the data is durable; set, if sync=always says so */
	uint64_t offset;
	struct iovec *iov;
	int iovcnt;
	size_t length; /* sum of iov */
	/* results */
	int result; /* 0 or -errno */
	size_t transferred;
	bool eof;                         /* read: reached the end of the file */
	struct tarn_attr post;            /* write: attributes right after it */
	struct tarn_commit token;         /* write */
	void (*done)(struct tarn_io *io); /* exactly once; in an engine thread or before return */
	void *owner;
	void *engine[8]; /* the engine's, until done() */
};
/* Reads and writes; the mode, ACL and share checks are the caller's. suid and sgid are cleared by
   writes of others than root (cred may be NULL). atime follows the dataset's property. */
void tarn_read(struct tarn_io *io);
void tarn_write(const struct tarn_cred *cred, struct tarn_io *io);

/* Waits until all data and metadata of the file that were acknowledged before are durable; for
   nothing if sync=disabled. */
void tarn_fsync(struct tarn_inode *inode, void (*fn)(void *arg, int result), void *arg);

/* SEEK_DATA / SEEK_HOLE; unsynced data is data. -ENXIO past the end of file is
   reported as *eof with 0. */
int tarn_seek(struct tarn_inode *inode, uint64_t offset, bool hole, uint64_t *out, bool *eof);
/* Guarantees space for a range (extends the size), or makes it a hole (size stays). A hole over
   several records comes in steps: after a crash or an error a part of it may be there. */
int tarn_allocate(const struct tarn_cred *cred, struct tarn_inode *inode, uint64_t offset,
		  uint64_t length, struct tarn_commit *token);
int tarn_punch(const struct tarn_cred *cred, struct tarn_inode *inode, uint64_t offset,
	       uint64_t length, struct tarn_commit *token);

/* ---- extended attributes: names without "user.", any bytes but NUL, at most 255 ---- */

enum tarn_xattr_how { TARN_XATTR_ANY, TARN_XATTR_CREATE, TARN_XATTR_REPLACE };
/* *len in: room, out: length of the value; -ERANGE if the room is too small (room 0: only asks);
   -ENODATA if there is none. */
int tarn_xattr_get(struct tarn_inode *inode, const char *name, void *value, size_t *len);
int tarn_xattr_set(const struct tarn_cred *cred, struct tarn_inode *inode, const char *name,
		   const void *value, size_t len, enum tarn_xattr_how how,
		   struct tarn_commit *token);
int tarn_xattr_remove(const struct tarn_cred *cred, struct tarn_inode *inode, const char *name,
		      struct tarn_commit *token);
/* Names after `after` (NULL = start) in byte order; fn returns false to stop. */
int tarn_xattr_list(struct tarn_inode *inode, const char *after,
		    bool (*fn)(void *arg, const char *name), void *arg, bool *eof);

#endif
