/* SPDX-License-Identifier: BSD-2-Clause */
/* permits.c - reads the extended attribute in which the kernel stores a default ACL. See permits.h. */
#include "permits.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ATTRIBUTE "system.posix_acl_default"

/* The layout of <linux/posix_acl_xattr.h>, little-endian: a version, then entries of a tag, permissions and an id. */
enum {
    VERSION = 4,         /* bytes */
    ENTRY = 8,           /* bytes */
    PERMISSIONS_AT = 2,  /* offset in an entry */
    TAG_USER = 0x01,     /* the owner */
    TAG_GROUP = 0x04,    /* the owning group */
    TAG_MASK = 0x10,     /* the maximum for all groups and named users; replaces TAG_GROUP if present */
    TAG_OTHER = 0x20,    /* all others */
    ATTRIBUTE_MAX = 4096 /* bytes */
};

static unsigned get_number(const unsigned char *bytes)
{
    return bytes[0] | (unsigned)bytes[1] << 8;
}

static mode_t read_acl(const unsigned char *acl, size_t length)
{
    mode_t user = 0, group = 0, other = 0;
    int has_mask = 0;

    for (size_t at = VERSION; at + ENTRY <= length; at += ENTRY) {
        unsigned tag = get_number(acl + at);
        mode_t permissions = get_number(acl + at + PERMISSIONS_AT) & 7;

        if (tag == TAG_USER)
            user = permissions;
        else if (tag == TAG_OTHER)
            other = permissions;
        else if (tag == TAG_MASK || (tag == TAG_GROUP && !has_mask))
            group = permissions;
        has_mask = has_mask || tag == TAG_MASK;
    }
    return user << 6 | group << 3 | other;
}

mode_t permits_in(int folder, mode_t mask)
{
    unsigned char acl[ATTRIBUTE_MAX];
    /* `folder` may be O_PATH, for which fgetxattr() fails. */
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ssize_t length = fd == -1 ? -1 : fgetxattr(fd, ATTRIBUTE, acl, sizeof(acl));

    if (fd != -1)
        close(fd);
    return length > VERSION ? read_acl(acl, (size_t)length) : 0777 & ~mask;
}
