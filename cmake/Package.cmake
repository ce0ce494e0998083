# SPDX-License-Identifier: LGPL-3.0-or-later
# What `cmake --install` puts beside the programs, in Debian's places, and the package tarn:
# `ninja deb` makes tarn_VERSION_ARCHITECTURE.deb in the build folder. Nothing goes to /etc: what
# is there is the administrator's.

install(FILES ${CMAKE_SOURCE_DIR}/config/tarn.bash-completion RENAME tarn
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${CMAKE_SOURCE_DIR}/config/dbus/org.ganesha.nfsd.tarn.conf
        DESTINATION ${CMAKE_INSTALL_DATADIR}/dbus-1/system.d)
install(FILES ${CMAKE_SOURCE_DIR}/config/systemd/nfs-ganesha-tarn.conf RENAME tarn.conf
        DESTINATION lib/systemd/system/nfs-ganesha.service.d)
install(FILES ${CMAKE_SOURCE_DIR}/config/systemd/tarn-scrub@.service
              ${CMAKE_SOURCE_DIR}/config/systemd/tarn-scrub@.timer
        DESTINATION lib/systemd/system)
set(doc ${CMAKE_INSTALL_DATADIR}/doc/tarn)
install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/cmake/debian/copyright
        DESTINATION ${doc})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs DESTINATION ${doc} FILES_MATCHING PATTERN "*.md")
install(FILES ${CMAKE_SOURCE_DIR}/config/ganesha.conf DESTINATION ${doc}/examples)

set(CPACK_DEBIAN_PACKAGE_MAINTAINER "Tarn developers <tarn@packages.invalid>")
string(TIMESTAMP TARN_BUILD_TIME "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(cmake/debian/changelog.in debian/changelog @ONLY)

# compressed(SOURCE DESTINATION): installs the file as gzip makes it.
find_program(TARN_GZIP gzip REQUIRED)
function(compressed source destination)
  get_filename_component(name ${source} NAME)
  set(packed ${CMAKE_BINARY_DIR}/debian/${name}.gz)
  add_custom_command(OUTPUT ${packed} DEPENDS ${source} VERBATIM
    COMMAND sh -c "exec \"$1\" -9nc \"$2\" > \"$3\"" sh ${TARN_GZIP} ${source} ${packed})
  install(FILES ${packed} DESTINATION ${destination})
  set_property(GLOBAL APPEND PROPERTY TARN_COMPRESSED ${packed})
endfunction()
foreach(page tarn tarnck tarn-ganesha)
  compressed(${CMAKE_SOURCE_DIR}/man/${page}.8 ${CMAKE_INSTALL_MANDIR}/man8)
endforeach()
compressed(${CMAKE_BINARY_DIR}/debian/changelog ${doc})
get_property(packed GLOBAL PROPERTY TARN_COMPRESSED)
add_custom_target(packed-docs ALL DEPENDS ${packed})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tarn)
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"storage engine with pools inside the NFS server nfs-ganesha
Tarn is a module (FSAL) for nfs-ganesha. It keeps the files of NFS clients in
a pool of devices, copy-on-write, compressed, checksummed from end to end and
healed from redundant copies. All of it runs in user space.

This package holds the module, the administrator's command tarn and the
offline check tarnck.")
# The module is made for one version of ganesha's interface: 11.0, of 4.3.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "nfs-ganesha (>= 4.3), nfs-ganesha (<< 4.4), dbus, rpcbind, netbase")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS bash-completion)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
get_filename_component(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${TARN_GANESHA_LIBRARY} DIRECTORY)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    ${CMAKE_SOURCE_DIR}/cmake/debian/postinst ${CMAKE_SOURCE_DIR}/cmake/debian/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)

# Without what the package does not hold: tests and benchmarks.
add_custom_target(deb COMMAND ${CMAKE_CPACK_COMMAND} -G DEB
  DEPENDS fsaltarn tarn-cli tarnck packed-docs USES_TERMINAL VERBATIM)
