# What a real-time thread may call, under clang's RealtimeSanitizer (clang 20 or newer; tools/install.sh realtime): no allocation, no lock that blocks,
# no system call. The sanitizer adds something to the marked functions only, so their files are compiled by clang and everything else, the kernels of all
# levels among it, is the library as it is.
.PHONY: realtime realtime-run
# Asked for by these targets only.
RT_CXX ?= $(if $(filter realtime-run build/realtime/%,$(MAKECMDGOALS)),$(shell bash tools/install.sh realtime-compiler))
RT_OUT := build/realtime
RT_SRC := $(wildcard src/api/*.cpp) src/runtime/parallel.cpp tests/machines/realtime/walk.cpp
RT_OBJ := $(RT_SRC:%.cpp=$(RT_OUT)/obj/%.o)
RT_FLAGS := -std=c++17 -O1 -g -fsanitize=realtime $(NUMERIC) -Iinclude $(WARN) -fno-exceptions -fno-rtti -pthread

realtime:
	@bash tools/install.sh realtime || true
	@$(MAKE) realtime-run
realtime-run: $(if $(RT_CXX),$(RT_OUT)/walk)
	@$(if $(RT_CXX),python3 tests/machines/realtime/check.py $(RT_OUT) $(RT_CXX),echo "realtime: skipped: there is no clang 20 or newer with RealtimeSanitizer here$(,) and no package of one")

$(RT_OUT)/walk: $(RT_OBJ) $(POOL_OBJ) $(LIBRARY)
	$(call short,LINK)$(RT_CXX) -fsanitize=realtime -pthread -o $@ $(RT_OBJ) $(POOL_OBJ) $(LIBRARY)
$(RT_OUT)/obj/%.o: %.cpp $(RT_OUT)/flags
	@mkdir -p $(@D)
	$(call short,CXX)$(RT_CXX) $(RT_FLAGS) $(DEPEND) -c $< -o $@
$(RT_OUT)/flags: FORCE
	$(call write_if_changed,'$(RT_CXX)' '$(RT_FLAGS)')
-include $(RT_OBJ:.o=.d)

# How deep the stack goes, beside what the compiler's call graph says and `phasor inspect` tells: here, or for TARGET under emulation.
.PHONY: test-stack
STACK_MACHINE_x86_64 := x86-64
STACK_MACHINE_arm    := armhf
STACK_MACHINE := $(or $(STACK_MACHINE_$(ARCH)),$(ARCH))
test-stack: $(OUT)/stack
	python3 tests/machines/realtime/stack_check.py $(STACK_MACHINE) $(if $(FRAMES),$(OBJ)/src,-) $(OUT)/stack $(RUNNER)
$(OUT)/stack: $(OBJ)/tests/machines/realtime/stack.o $(POOL_OBJ) $(LIBRARY)
	$(call short,LINK)$(CXX) $(LINK) -o $@ $^ $(LDFLAGS)
$(OBJ)/tests/machines/realtime/%.o: tests/machines/realtime/%.cpp $(OUT)/flags
	@mkdir -p $(@D)
	$(call short,CXX)$(CXX) $(CXX_TEST) $(EXTRA_CXXFLAGS) $(DEPEND) -c $< -o $@
-include $(OBJ)/tests/machines/realtime/stack.d
