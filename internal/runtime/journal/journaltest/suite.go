package journaltest

import (
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// Run is the suite that every backend passes. newStore is called once per test; its Sessions are in the namespace
// default and have unique UIDs, so that the tests run in parallel.
func Run(t *testing.T, newStore func(t *testing.T) journal.Store) {
	tests := []struct {
		name string
		run  func(*fixture)
	}{
		{"StoreReadsWhatItCreated", storeReadsWhatItCreated},
		{"AnEmptyLogHasAnEmptyView", emptyLog},
		{"AStepIsClosedOnceAndReadBack", closedOnce},
		{"AViewStaysAsItWas", viewStays},
		{"AViewToAnEntryReadsNoFurther", viewTo},
		{"AppendRefusesWhatNoReaderCouldRead", refusesUnreadable},
		{"AppendRefusesAStepOpenedBehindTheHead", refusesGap},
		{"ConcurrentTurnsAllGetTheirEntries", concurrentTurns},
		{"ConcurrentWritersOfOneStepAgreeOnOne", concurrentSteps},
		{"AWriterHeldAtAnyCallAdopts", heldWriter},
		{"ACreateThatFailsAtAnyCallChangesNothing", faultAtAnyCall},
		{"EveryCreateTimesOutAfterItsExecution", everyCreateTimesOut},
		{"ALostCreateIsTriedAgainAtItsOrdinal", lostCreate},
		{"ARefusedCreateIsNotTriedAgain", refusedCreate},
		{"AnEntryThatUsedUpTheQuotaIsFound", createThenRefused},
		{"AProbeSpendsNothing", probe},
		{"AnUnknownFormatIsNotGuessedAt", unknownFormat},
		{"ACreateThatExecutesLateIsAdopted", lateCreate},
		{"ALargeStepIsSplitAndPutTogether", largeStep},
		{"DeadPartsAreIgnored", deadParts},
		{"ACancelRacesWithALargeStep", cancelRaces},
		{"ViewsAreTheSameAtEverySize", viewsAtEverySize},
		{"AHeadThatIsACheckpointIsReadAndWrittenOn", headIsCheckpoint},
		{"AHintMayBeWrongOrOld", wrongHint},
		{"PartsAcrossACheckpointCount", partsAcrossCheckpoint},
		{"ATranscriptTooLargeForACheckpointIsRead", incompressible},
		{"AContextIsReadBehindCheckpoints", contextIsRead},
		{"TheLargestContextFits", largestContext},
		{"ACompactedConversationIsReadBack", compacted},
		{"ACompactionOfOtherMessagesIsDamage", compactsOthers},
		{"OutcomeOfATurnIsFoundByName", outcomeByName},
		{"AFullLogTakesOnlyClosingRecords", fullLog},
		{"TheManagerBoundsJournals", managerBounds},
		{"ACheckpointCountsTowardsTheLimit", checkpointCounts},
		{"TheCacheStaysWithinItsBound", cacheBound},
		{"MessagesThatWereSteeredAreRemembered", steeredIsRemembered},
		{"ASettledCallCountsOnce", settledOnce},
		{"OfTwoResultsInTheLogTheFirstCounts", firstResultCounts},
		{"ConcurrentResultsOfOneCallAgreeOnOne", settledConcurrently},
		{"AResultAfterTheEndIsToldSo", settledLate},
		{"ARecordTakesInWhatAnotherProcessHasWritten", recordOfAnother},
		{"ARecordTakesInEveryResult", staleRecord},
		{"AResultThatNoEntryHoldsIsRefused", settledTooLarge},
		{"OutcomesAreRecordedTogether", outcomesTogether},
		{"AsManyOutcomesAsAStepHasAreRecorded", manyOutcomes},
		{"OfTwoOutcomesInTheLogTheFirstCounts", firstOutcomeCounts},
		{"ConcurrentOutcomesOfOneCallAgreeOnOne", outcomesConcurrently},
		{"OutcomesAfterTheEndAreToldSo", outcomesLate},
		{"OutcomesAreRecordedWhateverFails", outcomesSurviveFaults},
		{"RecordedOutcomesCostTheStepNoRoom", outcomesMustFit},
		{"NothingClosesAStepOverAnApproval", approvalTakenIn},
		{"TheEndOfATurnTakesInApprovals", approvalTakenInByTheEnd},
		{"AnApprovalAndAnEndThatRaceAgree", approvalRaces},
		{"AClaimedCallCountsOnce", claimedOnce},
		{"ATaskBelongsToItsClaim", taskOfClaim},
		{"OfTwoClaimsInTheLogTheFirstCounts", firstClaimCounts},
		{"ConcurrentClaimsOfOneCallAgreeOnOne", claimedConcurrently},
		{"ARecordKnowsOfEveryClaimThatItDenies", unclaimedRecord},
		{"AnAnswerThatComesInIsKept", partialIsKept},
		{"OfTwoAnswersTheOneThatBeganLastIsKept", newestPartialCounts},
		{"AClosedStepKeepsNoMore", partialOfAClosedStep},
		{"AnAnswerIsKeptWhateverFails", partialSurvivesFaults},
		{"WhatIsKeptCostsNoAnswerItsRoom", partialMustFit},
		{"APieceReadsOnlyWhatIsNew", partialPiecesAreReadOnce},
		{"PiecesOutOfPlaceDoNotCount", partialOutOfPlace},
		{"TheHooksAtTheEndOfATurnAreRecordedOnce", endedOnce},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(newFixture(t, newStore))
		})
	}
}
