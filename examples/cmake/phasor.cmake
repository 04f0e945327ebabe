# Phasor in a CMake project: include(…/examples/cmake/phasor.cmake), then target_link_libraries(yours phasor).
# The library is built by its own Makefile, which knows the levels of each processor and their flags, with this project's compiler: the one of a
# toolchain file too. PHASOR_ARCHFLAGS: what that compiler must be told of the processor. XSIMD_DIR: where xsimd's headers lie, if not in /usr/include.
get_filename_component(PHASOR_ROOT "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
set(PHASOR_ARCHFLAGS "" CACHE STRING "flags that tell Phasor's compiler of the processor, e.g. -mcpu=cortex-a72")
set(PHASOR_BUILD "${CMAKE_BINARY_DIR}/phasor")
set(XSIMD_DIR "/usr/include" CACHE PATH "the directory with xsimd/xsimd.hpp")

set(PHASOR_COMPILER ${CMAKE_CXX_COMPILER})
if(CMAKE_CXX_COMPILER_TARGET)
  list(APPEND PHASOR_COMPILER --target=${CMAKE_CXX_COMPILER_TARGET})
endif()
if(CMAKE_SYSROOT)
  list(APPEND PHASOR_COMPILER --sysroot=${CMAKE_SYSROOT})
endif()
string(REPLACE ";" " " PHASOR_COMPILER "${PHASOR_COMPILER}")

include(ProcessorCount)
ProcessorCount(PHASOR_JOBS)
if(PHASOR_JOBS EQUAL 0)
  set(PHASOR_JOBS 1)
endif()

# Make decides what is out of date, so it is always asked.
add_custom_target(phasor_library
  COMMAND make -C ${PHASOR_ROOT} -j${PHASOR_JOBS} "OUT=${PHASOR_BUILD}" "HEADERS=${PHASOR_BUILD}/include" "CXX=${PHASOR_COMPILER}" "AR=${CMAKE_AR}"
          "ARCHFLAGS=${PHASOR_ARCHFLAGS}" "XSIMD=${XSIMD_DIR}" ${PHASOR_BUILD}/libphasor.a
  BYPRODUCTS ${PHASOR_BUILD}/libphasor.a
  VERBATIM)
add_library(phasor STATIC IMPORTED GLOBAL)
set_target_properties(phasor PROPERTIES IMPORTED_LOCATION ${PHASOR_BUILD}/libphasor.a INTERFACE_INCLUDE_DIRECTORIES ${PHASOR_ROOT}/include)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(arm|aarch64)" AND NOT ANDROID)
  # In a static program the function by which the levels are chosen is there only if somebody asks for it.
  set_property(TARGET phasor PROPERTY INTERFACE_LINK_OPTIONS -Wl,-u,getauxval)
endif()
add_dependencies(phasor phasor_library)
