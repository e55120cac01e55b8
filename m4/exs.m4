# SPDX-License-Identifier: BSD-2-Clause
# How configure asks for what it needs: every refusal names the package to install, on Debian and on Fedora.

# EXS_MISSING(WHAT, DEBIAN, FEDORA)
AC_DEFUN([EXS_MISSING],
    [AC_MSG_ERROR([$1 not found: install $2 (Debian, Ubuntu) or $3 (Fedora), or run ./quickstart build])])

# EXS_NEED_PC(VARIABLE, MODULES, DEBIAN, FEDORA): by pkg-config; sets VARIABLE_CFLAGS and VARIABLE_LIBS.
AC_DEFUN([EXS_NEED_PC],
    [PKG_CHECK_MODULES([$1], [$2], [], [EXS_MISSING([$2], [$3], [$4])])])

# EXS_WANT_PC(VARIABLE, MODULES): what can be done without; sets those, and the condition HAVE_VARIABLE.
AC_DEFUN([EXS_WANT_PC],
    [PKG_CHECK_MODULES([$1], [$2], [exs_have=yes], [exs_have=no])
    AM_CONDITIONAL([HAVE_$1], [test "x$exs_have" = xyes])])

# EXS_NEED_HEADER(HEADER, DEBIAN, FEDORA)
AC_DEFUN([EXS_NEED_HEADER],
    [AC_CHECK_HEADER([$1], [], [EXS_MISSING([header $1], [$2], [$3])])])

# EXS_NEED_LIB(VARIABLE, HEADER, LIBRARY, FUNCTION, DEBIAN, FEDORA): for a library without a .pc file.
AC_DEFUN([EXS_NEED_LIB],
    [EXS_NEED_HEADER([$2], [$5], [$6])
    AC_CHECK_LIB([$3], [$4], [AC_SUBST([$1_LIBS], [-l$3])], [EXS_MISSING([library $3], [$5], [$6])])])

# EXS_NEED_HOST: refuses what EXS can't work on, before anything else is looked for.
AC_DEFUN([EXS_NEED_HOST],
    [AS_CASE([$host_os], [linux*], [],
        [AC_MSG_ERROR([EXS needs Linux, for epoll, eventfd and UDP segmentation: $host_os has none of them])])
    AC_CACHE_CHECK([for 64-bit pointers, long and off_t], [exs_cv_64_bits],
        [AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <sys/types.h>
            _Static_assert(sizeof(void *) == 8 && sizeof(long) == 8 && sizeof(off_t) == 8, "");]])],
            [exs_cv_64_bits=yes], [exs_cv_64_bits=no])])
    AS_IF([test "x$exs_cv_64_bits" != xyes],
        [AC_MSG_ERROR([EXS needs a 64-bit host, for its handles and for messages and files beyond 4 GiB: build without -m32 or -mx32])])
    AC_CACHE_CHECK([for 64-bit atomics that take no lock], [exs_cv_64_bit_atomics],
        [AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[_Static_assert(__atomic_always_lock_free(8, 0), "");]])],
            [exs_cv_64_bit_atomics=yes], [exs_cv_64_bit_atomics=no])])
    AS_IF([test "x$exs_cv_64_bit_atomics" != xyes],
        [AC_MSG_ERROR([EXS needs 64-bit atomics that take no lock, since a forked child uses them: choose a processor that has them (-march)])])])

# EXS_SANITIZE: --enable-sanitize=LIST, as for -fsanitize; sets SANITIZE_FLAGS.
AC_DEFUN([EXS_SANITIZE],
    [AC_ARG_ENABLE([sanitize],
        [AS_HELP_STRING([--enable-sanitize=LIST], [build with -fsanitize=LIST: address,undefined or thread])],
        [], [enable_sanitize=no])
    AS_CASE([$enable_sanitize], [no], [SANITIZE_FLAGS=], [yes], [enable_sanitize=address,undefined])
    AS_IF([test "x$enable_sanitize" != xno],
        [SANITIZE_FLAGS="-fsanitize=$enable_sanitize -fno-sanitize-recover=all -fno-omit-frame-pointer"
        exs_saved_CFLAGS=$CFLAGS
        CFLAGS="$CFLAGS $SANITIZE_FLAGS"
        AC_MSG_CHECKING([whether $CC links with -fsanitize=$enable_sanitize])
        AC_LINK_IFELSE([AC_LANG_PROGRAM], [AC_MSG_RESULT([yes])],
            [AC_MSG_RESULT([no])
            AC_MSG_ERROR([$CC cannot build with -fsanitize=$enable_sanitize: give address,undefined or thread, and install the compiler's sanitizer libraries (libasan and libubsan on Fedora)])])
        CFLAGS=$exs_saved_CFLAGS])
    AC_SUBST([SANITIZE_FLAGS])])

# EXS_LTO: the library is optimized as a whole, since a message passes many of its files: by compilers whose objects are
# complete without that, too (gcc's), so that the checks, the static library and the tools link them as ever. Functions may
# be inlined that are as large as -O3 has them, for most are small and have one caller: that saved about a tenth of the
# instructions of a round trip. All of it is compiled in one piece, so that a caller of a small function knows which
# registers that leaves alone.
# Sets LTO_COMPILE, LTO_LINK and, for whatever else is linked of such objects, LTO_NONE.
AC_DEFUN([EXS_LTO],
    [AC_ARG_ENABLE([lto],
        [AS_HELP_STRING([--disable-lto], [compile each file of the library by itself])],
        [], [enable_lto=auto])
    AS_IF([test "x$enable_lto" = xauto && test "x$enable_sanitize" != xno], [enable_lto=no])
    AS_IF([test "x$enable_lto" = xauto], [AS_CASE([" $CFLAGS "], [*' -O'@<:@1-3sf@:>@*], [], [enable_lto=no])])
    LTO_COMPILE= LTO_LINK= LTO_NONE=
    AS_IF([test "x$enable_lto" != xno],
        [AC_MSG_CHECKING([whether $CC optimizes complete objects as a whole])
        exs_saved_CFLAGS=$CFLAGS
        exs_lto="-flto=auto -ffat-lto-objects --param=max-inline-insns-auto=30 --param=max-inline-insns-single=200"
        exs_lto="$exs_lto --param=inline-min-speedup=15 --param=early-inlining-insns=14"
        exs_lto_link="-flto=auto -flto-partition=one"
        CFLAGS="$CFLAGS -Werror $exs_lto $exs_lto_link"
        AC_LINK_IFELSE([AC_LANG_PROGRAM],
            [AC_MSG_RESULT([yes])
            LTO_COMPILE="$exs_lto" LTO_LINK="$exs_lto_link" LTO_NONE="-fno-lto"],
            [AC_MSG_RESULT([no])
            AS_IF([test "x$enable_lto" != xauto],
                [AC_MSG_ERROR([$CC has no -ffat-lto-objects: use gcc, or leave out --enable-lto])])])
        CFLAGS=$exs_saved_CFLAGS])
    AC_SUBST([LTO_COMPILE])
    AC_SUBST([LTO_LINK])
    AC_SUBST([LTO_NONE])])

# EXS_RACES: the condition HAVE_RACES, for check/races: the compiler marks accesses to memory, and no sanitizer does, nor
# are they counted.
AC_DEFUN([EXS_RACES],
    [AC_MSG_CHECKING([whether $CC marks accesses to memory])
    exs_saved_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -fsanitize=thread"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM], [exs_have=yes], [exs_have=no])
    CFLAGS=$exs_saved_CFLAGS
    AS_IF([test "x$enable_sanitize" != xno], [exs_have=no])
    AS_CASE([" $CFLAGS "], [*' --coverage '*], [exs_have=no])
    AC_MSG_RESULT([$exs_have])
    AM_CONDITIONAL([HAVE_RACES], [test "x$exs_have" = xyes])])

# EXS_WERROR: --enable-werror; sets WERROR_FLAGS.
AC_DEFUN([EXS_WERROR],
    [AC_ARG_ENABLE([werror],
        [AS_HELP_STRING([--enable-werror], [treat compiler warnings as errors])], [], [enable_werror=no])
    AS_IF([test "x$enable_werror" != xno], [WERROR_FLAGS=-Werror], [WERROR_FLAGS=])
    AC_SUBST([WERROR_FLAGS])])

# EXS_SYSTEMD: where systemd looks for units, below the prefix, if pkg-config knows it; --with-systemdsystemunitdir.
AC_DEFUN([EXS_SYSTEMD],
    [AC_ARG_WITH([systemdsystemunitdir],
        [AS_HELP_STRING([--with-systemdsystemunitdir=DIR], [install the unit of exs-serve there, or no; as pkg-config says of systemd, below the prefix])],
        [], [with_systemdsystemunitdir=auto])
    AS_CASE([$with_systemdsystemunitdir],
        [yes|auto], [systemdsystemunitdir=`$PKG_CONFIG --define-variable=prefix='${prefix}' --define-variable=root_prefix='${prefix}' \
            --define-variable=rootprefix='${prefix}' --variable=systemdsystemunitdir systemd 2>/dev/null`],
        [no], [systemdsystemunitdir=],
        [systemdsystemunitdir=$with_systemdsystemunitdir])
    AS_IF([test "x$with_systemdsystemunitdir" = xyes && test "x$systemdsystemunitdir" = x],
        [AC_MSG_ERROR([pkg-config knows no systemd: install systemd-dev (Debian 13 and later) or systemd (Debian 12, Ubuntu, Fedora), or give --with-systemdsystemunitdir the folder])])
    AC_SUBST([systemdsystemunitdir])
    AM_CONDITIONAL([HAVE_SYSTEMD], [test "x$systemdsystemunitdir" != x])])
