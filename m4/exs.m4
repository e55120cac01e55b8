# SPDX-License-Identifier: BSD-2-Clause
# How configure asks for what it needs: every refusal names the package to install, on Debian and on Fedora.

# EXS_MISSING(WHAT, DEBIAN, FEDORA)
AC_DEFUN([EXS_MISSING],
    [AC_MSG_ERROR([$1 not found: install $2 (Debian, Ubuntu) or $3 (Fedora), or run ./quickstart build])])

# EXS_NEED_PC(VARIABLE, MODULES, DEBIAN, FEDORA): by pkg-config; sets VARIABLE_CFLAGS and VARIABLE_LIBS.
AC_DEFUN([EXS_NEED_PC],
    [PKG_CHECK_MODULES([$1], [$2], [], [EXS_MISSING([$2], [$3], [$4])])])

# EXS_NEED_HEADER(HEADER, DEBIAN, FEDORA)
AC_DEFUN([EXS_NEED_HEADER],
    [AC_CHECK_HEADER([$1], [], [EXS_MISSING([header $1], [$2], [$3])])])

# EXS_NEED_LIB(VARIABLE, HEADER, LIBRARY, FUNCTION, DEBIAN, FEDORA): for a library without a .pc file.
AC_DEFUN([EXS_NEED_LIB],
    [EXS_NEED_HEADER([$2], [$5], [$6])
    AC_CHECK_LIB([$3], [$4], [AC_SUBST([$1_LIBS], [-l$3])], [EXS_MISSING([library $3], [$5], [$6])])])

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

# EXS_WERROR: --enable-werror; sets WERROR_FLAGS.
AC_DEFUN([EXS_WERROR],
    [AC_ARG_ENABLE([werror],
        [AS_HELP_STRING([--enable-werror], [treat compiler warnings as errors])], [], [enable_werror=no])
    AS_IF([test "x$enable_werror" != xno], [WERROR_FLAGS=-Werror], [WERROR_FLAGS=])
    AC_SUBST([WERROR_FLAGS])])
