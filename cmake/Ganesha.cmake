# SPDX-License-Identifier: LGPL-3.0-or-later
# Ganesha::headers: what an FSAL is compiled against. The headers are fetched by
# tools/ganesha-headers when they are missing; all build folders share one copy.
set(TARN_GANESHA_DIR ${CMAKE_SOURCE_DIR}/build/_deps/ganesha
  CACHE PATH "Folder of nfs-ganesha's headers, filled when empty")
execute_process(
  COMMAND ${CMAKE_SOURCE_DIR}/tools/ganesha-headers ${TARN_GANESHA_DIR}
  COMMAND_ERROR_IS_FATAL ANY)

add_library(Ganesha::headers INTERFACE IMPORTED)
# As system headers: they are not clean under this project's warnings.
target_include_directories(Ganesha::headers SYSTEM INTERFACE
  ${TARN_GANESHA_DIR}
  ${TARN_GANESHA_DIR}/src/include
  ${TARN_GANESHA_DIR}/src/include/os/linux
  ${TARN_GANESHA_DIR}/src/FSAL/Stackable_FSALs/FSAL_MDCACHE
  /usr/include/ntirpc)
